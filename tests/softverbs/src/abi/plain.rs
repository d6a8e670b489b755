//! Plain data: attributes, work requests, completions, flow specifications, and the public parts
//! of the objects. Enumerations are `u32`, as the compiler lays them out.

use super::{ibv_context, structures};
use core::ffi::{c_int, c_void};
use libc::{pthread_cond_t, pthread_mutex_t};

structures! { STRUCTURES;
    ibv_device {
        pad_ops: [*mut c_void; 2],
        node_type: c_int,
        transport_type: c_int,
        name: [u8; 64],
        dev_name: [u8; 64],
        dev_path: [u8; 256],
        ibdev_path: [u8; 256],
    }
    ibv_device_attr {
        fw_ver: [u8; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: u32,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: u32,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }
    ibv_query_device_ex_input { comp_mask: u32 }
    ibv_odp_caps { general_caps: u64, per_transport_caps: [u32; 3] }
    ibv_tso_caps { max_tso: u32, supported_qpts: u32 }
    ibv_rss_caps {
        supported_qpts: u32,
        max_rwq_indirection_tables: u32,
        max_rwq_indirection_table_size: u32,
        rx_hash_fields_mask: u64,
        rx_hash_function: u8,
    }
    ibv_packet_pacing_caps { qp_rate_limit_min: u32, qp_rate_limit_max: u32, supported_qpts: u32 }
    ibv_tm_caps {
        max_rndv_hdr_size: u32,
        max_num_tags: u32,
        flags: u32,
        max_ops: u32,
        max_sge: u32,
    }
    ibv_cq_moderation_caps { max_cq_count: u16, max_cq_period: u16 }
    ibv_pci_atomic_caps { fetch_add: u16, swap: u16, compare_swap: u16 }
    ibv_device_attr_ex {
        orig_attr: ibv_device_attr,
        comp_mask: u32,
        odp_caps: ibv_odp_caps,
        completion_timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        tso_caps: ibv_tso_caps,
        rss_caps: ibv_rss_caps,
        max_wq_type_rq: u32,
        packet_pacing_caps: ibv_packet_pacing_caps,
        raw_packet_caps: u32,
        tm_caps: ibv_tm_caps,
        cq_mod_caps: ibv_cq_moderation_caps,
        max_dm_size: u64,
        pci_atomic_caps: ibv_pci_atomic_caps,
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }
    ibv_port_attr {
        state: u32,
        max_mtu: u32,
        active_mtu: u32,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
    }
    ibv_gid_entry {
        gid: [u64; 2],
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }
    ibv_async_event { element: *mut c_void, event_type: u32 }
    ibv_wc {
        wr_id: u64,
        status: u32,
        opcode: u32,
        vendor_err: u32,
        byte_len: u32,
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: u32,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
    ibv_pd { context: *mut ibv_context, handle: u32 }
    ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }
    ibv_qp_cap {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }
    ibv_qp_init_attr {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut c_void,
        cap: ibv_qp_cap,
        qp_type: u32,
        sq_sig_all: c_int,
    }
    ibv_rx_hash_conf {
        rx_hash_function: u8,
        rx_hash_key_len: u8,
        rx_hash_key: *mut u8,
        rx_hash_fields_mask: u64,
    }
    ibv_qp_init_attr_ex {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut c_void,
        cap: ibv_qp_cap,
        qp_type: u32,
        sq_sig_all: c_int,
        comp_mask: u32,
        pd: *mut ibv_pd,
        xrcd: *mut c_void,
        create_flags: u32,
        max_tso_header: u16,
        rwq_ind_tbl: *mut c_void,
        rx_hash_conf: ibv_rx_hash_conf,
        source_qpn: u32,
        send_ops_flags: u64,
    }
    ibv_global_route {
        dgid: [u64; 2],
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }
    ibv_ah_attr {
        grh: ibv_global_route,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }
    ibv_qp_attr {
        qp_state: u32,
        cur_qp_state: u32,
        path_mtu: u32,
        path_mig_state: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        cap: ibv_qp_cap,
        ah_attr: ibv_ah_attr,
        alt_ah_attr: ibv_ah_attr,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        rate_limit: u32,
    }
    ibv_sge { addr: u64, length: u32, lkey: u32 }
    ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: u32,
        send_flags: u32,
        imm_data: u32,
        wr: [u64; 4],
        qp_type: u32,
        tso: [u64; 2],
        pad_bind_mw: [u64; 4],
    }
    ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }
    ibv_qp {
        context: *mut ibv_context,
        qp_context: *mut c_void,
        pd: *mut ibv_pd,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut c_void,
        handle: u32,
        qp_num: u32,
        state: u32,
        qp_type: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }
    ibv_comp_channel { context: *mut ibv_context, fd: c_int, refcnt: c_int }
    ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
    }
    ibv_poll_cq_attr { comp_mask: u32 }
    ibv_cq_ex {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
        comp_mask: u32,
        status: u32,
        wr_id: u64,
        start_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
        next_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
        end_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
        read_opcode: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_vendor_err: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_byte_len: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_imm_data: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_qp_num: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_src_qp: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_wc_flags: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_slid: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_sl: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u8>,
        read_dlid_path_bits: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u8>,
        read_completion_ts: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u64>,
        read_cvlan: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u16>,
        read_flow_tag: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
        read_tm_info: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut c_void)>,
        read_completion_wallclock_ns: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u64>,
    }
    ibv_cq_init_attr_ex {
        cqe: u32,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: u32,
        wc_flags: u64,
        comp_mask: u32,
        flags: u32,
        parent_domain: *mut ibv_pd,
    }
    ibv_moderate_cq { cq_count: u16, cq_period: u16 }
    ibv_modify_cq_attr { attr_mask: u32, moderate: ibv_moderate_cq }
    ibv_flow_eth_filter { dst_mac: [u8; 6], src_mac: [u8; 6], ether_type: u16, vlan_tag: u16 }
    ibv_flow_spec_eth {
        r#type: u32,
        size: u16,
        val: ibv_flow_eth_filter,
        mask: ibv_flow_eth_filter,
    }
    ibv_flow_ipv4_filter { src_ip: u32, dst_ip: u32 }
    ibv_flow_spec_ipv4 {
        r#type: u32,
        size: u16,
        val: ibv_flow_ipv4_filter,
        mask: ibv_flow_ipv4_filter,
    }
    ibv_flow_tcp_udp_filter { dst_port: u16, src_port: u16 }
    ibv_flow_spec_tcp_udp {
        r#type: u32,
        size: u16,
        val: ibv_flow_tcp_udp_filter,
        mask: ibv_flow_tcp_udp_filter,
    }
    ibv_flow_spec_action_tag { r#type: u32, size: u16, tag_id: u32 }
    ibv_flow_attr {
        comp_mask: u32,
        r#type: u32,
        size: u16,
        priority: u16,
        num_of_specs: u8,
        port: u8,
        flags: u32,
    }
    ibv_flow { comp_mask: u32, context: *mut ibv_context, handle: u32 }
    ibv_values_ex { comp_mask: u32, raw_clock: libc::timespec }
}
