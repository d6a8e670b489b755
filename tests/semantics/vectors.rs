//! Vectors of every shape.

use tests::matrix;

mod iovecs {
    use super::matrix;

    matrix! {
        "iovecs", rx 2 tx 0:
        readv_none: "readv" "none";
        readv_null_vector: "readv" "null_vector";
        readv_null_vector_none: "readv" "null_vector_none";
        readv_one: "readv" "one";
        readv_gaps: "readv" "gaps";
        readv_empty: "readv" "empty";
        readv_most: "readv" "most";
        readv_too_many: "readv" "too_many";
        readv_null_base: "readv" "null_base";
        readv_null_base_empty: "readv" "null_base_empty";
        readv_kernel_base: "readv" "kernel_base";
        readv_kernel_base_empty: "readv" "kernel_base_empty";
        readv_kernel_end: "readv" "kernel_end";
        readv_negative: "readv" "negative";
        readv_sum: "readv" "sum";
        recvmsg_none: "recvmsg" "none";
        recvmsg_null_vector: "recvmsg" "null_vector";
        recvmsg_null_vector_none: "recvmsg" "null_vector_none";
        recvmsg_one: "recvmsg" "one";
        recvmsg_gaps: "recvmsg" "gaps";
        recvmsg_empty: "recvmsg" "empty";
        recvmsg_most: "recvmsg" "most";
        recvmsg_too_many: "recvmsg" "too_many";
        recvmsg_null_base: "recvmsg" "null_base";
        recvmsg_null_base_empty: "recvmsg" "null_base_empty";
        recvmsg_kernel_base: "recvmsg" "kernel_base";
        recvmsg_kernel_base_empty: "recvmsg" "kernel_base_empty";
        recvmsg_kernel_end: "recvmsg" "kernel_end";
        recvmsg_negative: "recvmsg" "negative";
        recvmsg_sum: "recvmsg" "sum";
        recvmmsg_gaps: "recvmmsg" "gaps";
        recvmmsg_too_many: "recvmmsg" "too_many";
        recvmmsg_null_base: "recvmmsg" "null_base";
        recvmmsg_kernel_base: "recvmmsg" "kernel_base";
        recvmmsg_negative: "recvmmsg" "negative";
    }

    matrix! {
        "iovecs", rx 0 tx 1:
        sendmsg_none: "sendmsg" "none";
        sendmsg_null_vector: "sendmsg" "null_vector";
        sendmsg_null_vector_none: "sendmsg" "null_vector_none";
        sendmsg_one: "sendmsg" "one";
        sendmsg_gaps: "sendmsg" "gaps";
        sendmsg_empty: "sendmsg" "empty";
        sendmsg_most: "sendmsg" "most";
        sendmsg_too_many: "sendmsg" "too_many";
        sendmsg_null_base: "sendmsg" "null_base";
        sendmsg_null_base_empty: "sendmsg" "null_base_empty";
        sendmsg_kernel_base: "sendmsg" "kernel_base";
        sendmsg_kernel_base_empty: "sendmsg" "kernel_base_empty";
        sendmsg_kernel_end: "sendmsg" "kernel_end";
        sendmsg_negative: "sendmsg" "negative";
        sendmsg_sum: "sendmsg" "sum";
        writev_none: "writev" "none";
        writev_null_vector: "writev" "null_vector";
        writev_null_vector_none: "writev" "null_vector_none";
        writev_one: "writev" "one";
        writev_gaps: "writev" "gaps";
        writev_empty: "writev" "empty";
        writev_most: "writev" "most";
        writev_too_many: "writev" "too_many";
        writev_null_base: "writev" "null_base";
        writev_null_base_empty: "writev" "null_base_empty";
        writev_kernel_base: "writev" "kernel_base";
        writev_kernel_base_empty: "writev" "kernel_base_empty";
        writev_kernel_end: "writev" "kernel_end";
        writev_negative: "writev" "negative";
        writev_sum: "writev" "sum";
        sendmmsg_gaps: "sendmmsg" "gaps";
        sendmmsg_too_many: "sendmmsg" "too_many";
        sendmmsg_null_base: "sendmmsg" "null_base";
        sendmmsg_kernel_base: "sendmmsg" "kernel_base";
        sendmmsg_negative: "sendmmsg" "negative";
    }
}
