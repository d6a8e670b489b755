//! The structures and constants declared in Rust against the real header: a C program of
//! assertions that the compiler checks.

use softverbs::abi::{CONSTANTS, CONTEXT, STRUCTURES};
use std::fmt::Write as _;

#[test]
fn every_size_offset_and_value_is_the_headers() {
    let mut text = String::from("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
    text += "#define HAS(t, f, o, s) _Static_assert(offsetof(t, f) == o \
             && sizeof(((t *)0)->f) == s, #t \".\" #f)\n";
    let mut fields = 0;
    for layout in STRUCTURES.iter().chain(CONTEXT) {
        let (name, size) = (layout.name, layout.size);
        let _ = writeln!(
            text,
            "_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");"
        );
        for (field, offset, size) in layout.fields {
            let field = field.trim_start_matches("r#");
            if !field.starts_with("pad_") {
                fields += 1;
                let _ = writeln!(text, "HAS(struct {name}, {field}, {offset}, {size});");
            }
        }
    }
    for (name, value) in CONSTANTS {
        let _ = writeln!(
            text,
            "_Static_assert((unsigned)({name}) == {value}u, \"{name}\");"
        );
    }
    // The count says that the tables have not been emptied.
    assert!(fields > 300 && CONSTANTS.len() > 80, "{fields} fields");
    text += "int main(void) { return 0; }\n";
    crate::build::compile("layout", &text);
}
