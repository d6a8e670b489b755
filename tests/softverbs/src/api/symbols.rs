//! The names under which the functions are exported, with the versions that rdma-core gives
//! them: a program linked against the real library asks for both.
//!
//! Each is a jump to the function of the same name behind `sv_`. An assembler directive is the
//! only way to name a symbol's version; the versions themselves are in `versions.map`.

/// Exports each function under its name and version.
macro_rules! export {
    ($($version:literal $name:literal => $function:literal;)*) => {
        $(core::arch::global_asm!(
            ".text",
            concat!(".globl sv_export_", $name),
            concat!(".type sv_export_", $name, ", @function"),
            concat!("sv_export_", $name, ": jmp ", $function),
            concat!(".size sv_export_", $name, ", . - sv_export_", $name),
            concat!(".symver sv_export_", $name, ", ", $name, "@@IBVERBS_", $version),
        );)*
        /// Names and versions, for the test that compares them with the header.
        #[cfg(test)]
        const EXPORTED: &[(&str, &str)] = &[$(($name, $version)),*];
    };
}

export! {
    "1.1" "ibv_get_device_list" => "sv_get_device_list";
    "1.1" "ibv_free_device_list" => "sv_free_device_list";
    "1.1" "ibv_get_device_name" => "sv_get_device_name";
    "1.1" "ibv_get_device_guid" => "sv_get_device_guid";
    "1.9" "ibv_get_device_index" => "sv_get_device_index";
    "1.1" "ibv_open_device" => "sv_open_device";
    "1.1" "ibv_close_device" => "sv_close_device";
    "1.1" "ibv_get_async_event" => "sv_get_async_event";
    "1.1" "ibv_ack_async_event" => "sv_ack_async_event";
    "1.1" "ibv_query_device" => "sv_query_device";
    "1.1" "ibv_query_port" => "sv_query_port";
    "1.1" "ibv_query_gid" => "sv_query_gid";
    "1.11" "_ibv_query_gid_ex" => "sv_query_gid_ex";
    "1.11" "_ibv_query_gid_table" => "sv_query_gid_table";
    "1.1" "ibv_query_pkey" => "sv_query_pkey";
    "1.5" "ibv_get_pkey_index" => "sv_get_pkey_index";
    "1.1" "ibv_alloc_pd" => "sv_alloc_pd";
    "1.1" "ibv_dealloc_pd" => "sv_dealloc_pd";
    "1.1" "ibv_reg_mr" => "sv_reg_mr";
    "1.7" "ibv_reg_mr_iova" => "sv_reg_mr_iova";
    "1.8" "ibv_reg_mr_iova2" => "sv_reg_mr_iova";
    "1.1" "ibv_dereg_mr" => "sv_dereg_mr";
    "1.0" "ibv_create_comp_channel" => "sv_create_comp_channel";
    "1.0" "ibv_destroy_comp_channel" => "sv_destroy_comp_channel";
    "1.1" "ibv_create_cq" => "sv_create_cq";
    "1.1" "ibv_resize_cq" => "sv_unsupported_number";
    "1.1" "ibv_destroy_cq" => "sv_destroy_cq";
    "1.1" "ibv_get_cq_event" => "sv_get_cq_event";
    "1.1" "ibv_ack_cq_events" => "sv_ack_cq_events";
    "1.1" "ibv_create_qp" => "sv_create_qp";
    "1.1" "ibv_modify_qp" => "sv_modify_qp";
    "1.1" "ibv_query_qp" => "sv_query_qp";
    "1.1" "ibv_destroy_qp" => "sv_destroy_qp";
    "1.14" "ibv_query_qp_data_in_order" => "sv_zero";
    "1.6" "ibv_qp_to_qp_ex" => "sv_unsupported_pointer";
    "1.1" "ibv_fork_init" => "sv_fork_init";
    "1.13" "ibv_is_fork_initialized" => "sv_is_fork_initialized";
    "1.1" "ibv_wc_status_str" => "sv_wc_status_str";
    "1.1" "ibv_event_type_str" => "sv_event_type_str";
    "1.1" "ibv_port_state_str" => "sv_port_state_str";
    "1.1" "ibv_node_type_str" => "sv_node_type_str";
    "1.1" "ibv_rereg_mr" => "sv_unsupported_minus_one";
    "1.12" "ibv_reg_dmabuf_mr" => "sv_unsupported_pointer";
    "1.1" "ibv_create_srq" => "sv_unsupported_pointer";
    "1.1" "ibv_modify_srq" => "sv_unsupported_number";
    "1.1" "ibv_query_srq" => "sv_unsupported_number";
    "1.1" "ibv_destroy_srq" => "sv_unsupported_number";
    "1.1" "ibv_create_ah" => "sv_unsupported_pointer";
    "1.1" "ibv_init_ah_from_wc" => "sv_unsupported_minus_one";
    "1.1" "ibv_create_ah_from_wc" => "sv_unsupported_pointer";
    "1.1" "ibv_destroy_ah" => "sv_unsupported_number";
    "1.1" "ibv_attach_mcast" => "sv_unsupported_number";
    "1.1" "ibv_detach_mcast" => "sv_unsupported_number";
    "1.1" "ibv_resolve_eth_l2_from_gid" => "sv_unsupported_number";
    "1.10" "ibv_import_device" => "sv_unsupported_pointer";
    "1.10" "ibv_import_pd" => "sv_unsupported_pointer";
    "1.10" "ibv_unimport_pd" => "sv_zero";
    "1.10" "ibv_import_mr" => "sv_unsupported_pointer";
    "1.10" "ibv_unimport_mr" => "sv_zero";
    "1.13" "ibv_import_dm" => "sv_unsupported_pointer";
    "1.13" "ibv_unimport_dm" => "sv_zero";
    "1.10" "ibv_set_ece" => "sv_unsupported_number";
    "1.10" "ibv_query_ece" => "sv_unsupported_number";
    "1.0" "ibv_rate_to_mult" => "sv_rate_to_mult";
    "1.0" "mult_to_ibv_rate" => "sv_mult_to_rate";
    "1.1" "ibv_rate_to_mbps" => "sv_rate_to_mbps";
    "1.1" "mbps_to_ibv_rate" => "sv_mbps_to_rate";
}

#[cfg(test)]
mod tests {
    use super::EXPORTED;
    use std::process::Command;

    /// Every function that the header declares has its name and version here, as the real
    /// library's symbol table has it.
    #[test]
    fn the_real_library_exports_the_same() {
        let library = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";
        let out = Command::new("readelf")
            .args(["--dyn-syms", "-W", library])
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "readelf {library}: is libibverbs1 there?"
        );
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let real: Vec<&str> = text
            .lines()
            .filter_map(|l| l.split_whitespace().nth(7))
            .collect();
        for (name, version) in EXPORTED {
            let wanted = format!("{name}@@IBVERBS_{version}");
            assert!(real.contains(&wanted.as_str()), "{wanted} is not real");
        }
        let header = std::fs::read_to_string("/usr/include/infiniband/verbs.h").unwrap();
        for symbol in real.iter().filter(|s| s.contains("@@IBVERBS_1")) {
            let name = symbol.split('@').next().unwrap();
            let declared = header.contains(&format!("{name}("));
            let known = EXPORTED.iter().any(|(n, _)| *n == name);
            assert!(known || !declared, "{symbol} is missing");
        }
    }
}
