//! The structures of libibverbs as a C compiler lays them out, against those of the engine.

use engine::sys::verbs::abi::LAYOUT;
use std::fmt::Write;
use std::process::Command;

#[test]
fn layouts_are_those_of_the_header() {
    let mut source = String::from(
        "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    for (expression, _) in LAYOUT {
        writeln!(source, "printf(\"%zu\\n\", (size_t)({expression}));").unwrap();
    }
    source.push_str("return 0; }\n");
    let directory = std::env::temp_dir().join(format!("verbs-abi-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("layout.c");
    let program = directory.join("layout");
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("cc")
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("a C compiler is installed");
    assert!(compiled.success(), "libibverbs-dev is installed");
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers.len(), LAYOUT.len());
    for ((expression, ours), theirs) in LAYOUT.iter().zip(numbers) {
        assert_eq!(*ours, theirs, "{expression}");
    }
}
