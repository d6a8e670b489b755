//! The C interface's structures and constants, as `<infiniband/verbs.h>` of rdma-core 44 lays
//! them out on x86-64. Names are those of the header. A test compiles a C program against the
//! header and compares every size, offset and value listed here.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    reason = "names and meanings are those of <infiniband/verbs.h>"
)]

mod constants;
mod context;
mod plain;

pub use constants::*;
pub use context::*;
pub use plain::*;

/// One structure as it is declared here: what the header has to agree with.
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    /// Name, offset and size of each field; those named `pad_…` stand for what is not used.
    pub fields: &'static [(&'static str, usize, usize)],
}

/// Declares C structures, and the table of their layouts under the given name.
macro_rules! structures {
    ($table:ident; $($name:ident { $($field:ident : $type:ty),* $(,)? })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name { $(pub $field: $type),* }
        )*
        pub const $table: &[$crate::abi::Layout] = &[$($crate::abi::Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            fields: &[$((
                stringify!($field),
                core::mem::offset_of!($name, $field),
                size_of::<$type>(),
            )),*],
        }),*];
    };
}
pub(crate) use structures;
