//! The context and its operations: what the header's inline functions call through.

use super::*;
use core::ffi::{c_int, c_void};
use libc::pthread_mutex_t;

/// An operation that this library does not have; the header's inline functions then say
/// `EOPNOTSUPP` or fall back by themselves.
type Absent = *mut c_void;

structures! { CONTEXT;
    ibv_context_ops {
        _compat_query_device: Absent,
        _compat_query_port: Absent,
        _compat_alloc_pd: Absent,
        _compat_dealloc_pd: Absent,
        _compat_reg_mr: Absent,
        _compat_rereg_mr: Absent,
        _compat_dereg_mr: Absent,
        alloc_mw: Absent,
        bind_mw: Absent,
        dealloc_mw: Absent,
        _compat_create_cq: Absent,
        poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
        req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
        _compat_cq_event: Absent,
        _compat_resize_cq: Absent,
        _compat_destroy_cq: Absent,
        _compat_create_srq: Absent,
        _compat_modify_srq: Absent,
        _compat_query_srq: Absent,
        _compat_destroy_srq: Absent,
        post_srq_recv: Absent,
        _compat_create_qp: Absent,
        _compat_query_qp: Absent,
        _compat_modify_qp: Absent,
        _compat_destroy_qp: Absent,
        post_send: Option<
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
        >,
        post_recv: Option<
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        >,
        _compat_create_ah: Absent,
        _compat_destroy_ah: Absent,
        _compat_attach_mcast: Absent,
        _compat_detach_mcast: Absent,
        _compat_async_event: Absent,
    }
    ibv_context {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: pthread_mutex_t,
        abi_compat: *mut c_void,
    }
    verbs_context {
        query_port: Option<
            unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int,
        >,
        advise_mr: Absent,
        alloc_null_mr: Absent,
        read_counters: Absent,
        attach_counters_point_flow: Absent,
        create_counters: Absent,
        destroy_counters: Absent,
        reg_dm_mr: Absent,
        alloc_dm: Absent,
        free_dm: Absent,
        modify_flow_action_esp: Absent,
        destroy_flow_action: Absent,
        create_flow_action_esp: Absent,
        modify_qp_rate_limit: Absent,
        alloc_parent_domain: Absent,
        dealloc_td: Absent,
        alloc_td: Absent,
        modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>,
        post_srq_ops: Absent,
        destroy_rwq_ind_table: Absent,
        create_rwq_ind_table: Absent,
        destroy_wq: Absent,
        modify_wq: Absent,
        create_wq: Absent,
        query_rt_values: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
        create_cq_ex: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
        >,
        r#priv: *mut c_void,
        query_device_ex: Option<
            unsafe extern "C" fn(
                *mut ibv_context,
                *const ibv_query_device_ex_input,
                *mut ibv_device_attr_ex,
                usize,
            ) -> c_int,
        >,
        ibv_destroy_flow: Option<unsafe extern "C" fn(*mut ibv_flow) -> c_int>,
        ABI_placeholder2: Absent,
        ibv_create_flow: Option<
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow,
        >,
        ABI_placeholder1: Absent,
        open_qp: Absent,
        create_qp_ex: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
        >,
        get_srq_num: Absent,
        create_srq_ex: Absent,
        open_xrcd: Absent,
        close_xrcd: Absent,
        _ABI_placeholder3: u64,
        sz: usize,
        context: ibv_context,
    }
}
