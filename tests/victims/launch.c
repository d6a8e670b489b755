/* What preloading argv[1] costs a program that does nothing: argv[3] is started argv[2] times with
 * and without, alternating; prints the medians, and the difference of the lower quartiles (which
 * other programs on the machine disturb less), in microseconds. */
#include "common.h"
#include <spawn.h>

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	begin(30);
	if (argc != 4)
		return 2;
	int count = atoi(argv[2]);
	char preload[4096];
	snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
	char *environments[2][2] = {{NULL}, {preload, NULL}}, *args[] = {argv[3], NULL};
	int64_t *took[2] = {calloc(count, sizeof **took), calloc(count, sizeof **took)};
	for (int i = 0; i < count; i++)
		for (int with = 0; with < 2; with++) {
			pid_t child;
			int status;
			int64_t start = now_us();
			if (posix_spawn(&child, argv[3], NULL, NULL, args, environments[with]) != 0)
				die("spawn");
			MUST(waitpid(child, &status, 0));
			took[with][i] = now_us() - start;
			if (status != 0)
				die("the program fails");
		}
	for (int with = 0; with < 2; with++)
		qsort(took[with], count, sizeof **took, compare);
	say("without %lld with %lld more %lld", (long long)took[0][count / 2],
	    (long long)took[1][count / 2], (long long)(took[1][count / 4] - took[0][count / 4]));
	return 0;
}
