// A program of named cases: the first argument chooses, without one all names are printed.
#ifndef CASES_H
#define CASES_H

#include "rig.h"

struct entry {
	const char *name;
	void (*run)(void);
};

static inline int cases(const struct entry *entries, size_t count, int argc, char **argv)
{
	for (size_t i = 0; i < count; i++) {
		if (argc < 2) {
			puts(entries[i].name);
		} else if (strcmp(argv[1], entries[i].name) == 0) {
			entries[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}

#define CASES(...)                                                                      \
	int main(int argc, char **argv)                                                 \
	{                                                                               \
		static const struct entry entries[] = {__VA_ARGS__};                    \
		return cases(entries, sizeof(entries) / sizeof(*entries), argc, argv);  \
	}

#define CASE(f)                                                                         \
	{                                                                               \
		#f, f                                                                   \
	}

#endif
