//! The states of a raw-packet queue pair, and what a change may say
//! (`qp_state_table`, drivers/infiniband/core/verbs.c).

use super::QueuePair;
use crate::abi::*;
use crate::strict;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// Attributes that a change has to have, and may have beside the state; none if there is no
/// such change.
fn attributes(from: u32, to: u32) -> Option<(u32, u32)> {
    match (from, to) {
        (IBV_QPS_RESET, IBV_QPS_INIT) => Some((IBV_QP_PORT, 0)),
        (IBV_QPS_RTR | IBV_QPS_RTS, IBV_QPS_RTS) => Some((0, IBV_QP_RATE_LIMIT)),
        (IBV_QPS_INIT, IBV_QPS_INIT | IBV_QPS_RTR)
        | (_, IBV_QPS_RESET)
        | (IBV_QPS_INIT | IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_ERR, IBV_QPS_ERR) => Some((0, 0)),
        _ => None,
    }
}

/// The state a change leads to.
///
/// # Errors
/// `EINVAL` as the kernel says it.
pub(super) fn next(from: u32, attr: &ibv_qp_attr, mask: u32) -> Result<u32, Errno> {
    let refused = |rule: core::fmt::Arguments| Err(strict::violated(Errno::INVAL, rule));
    if mask & IBV_QP_CUR_STATE != 0 {
        let may = matches!(from, IBV_QPS_RTR | IBV_QPS_RTS);
        if !may || attr.cur_qp_state != from {
            return refused(format_args!(
                "modify_qp: current state {from}, not {}",
                attr.cur_qp_state
            ));
        }
    }
    let to = if mask & IBV_QP_STATE != 0 {
        attr.qp_state
    } else {
        from
    };
    if to == IBV_QPS_SQD {
        // The card drains the send queue; not modelled.
        return Err(Errno::OPNOTSUPP);
    }
    let Some((required, optional)) = attributes(from, to) else {
        return refused(format_args!("modify_qp: no change of state {from} to {to}"));
    };
    let given = mask & !(IBV_QP_STATE | IBV_QP_CUR_STATE);
    if given & required != required || given & !(required | optional) != 0 {
        return refused(format_args!(
            "modify_qp: state {from} to {to} of a raw-packet queue pair with attributes {mask:#x}"
        ));
    }
    if given & IBV_QP_PORT != 0 && attr.port_num != 1 {
        return refused(format_args!("modify_qp: port {}", attr.port_num));
    }
    Ok(to)
}

impl QueuePair {
    /// `enum ibv_qp_state`.
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    pub(super) fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        // SAFETY: within `abi`, which lives as long as `self`.
        let shown = unsafe { &raw mut (*self.abi.get()).state };
        // SAFETY: aligned and valid; the application only reads it.
        unsafe { shown.write_volatile(state) };
    }

    /// `ibv_modify_qp`.
    ///
    /// # Errors
    /// `EINVAL` for a change that does not exist or says too little or too much.
    pub(crate) fn modify(&'static self, attr: &ibv_qp_attr, mask: u32) -> Result<(), Errno> {
        let _one = self.control.lock();
        let from = self.state();
        let to = next(from, attr, mask)?;
        match to {
            IBV_QPS_RESET => self.reset(),
            IBV_QPS_ERR => self.fail(),
            IBV_QPS_RTR => {
                // What came before is lost, as on a card that was not ready to receive.
                self.discard_frames();
                self.set_state(to);
            }
            _ => self.set_state(to),
        }
        Ok(())
    }

    /// To the error state: posted receives are flushed, later posts will be.
    pub(crate) fn fail(&'static self) {
        self.set_state(IBV_QPS_ERR);
        self.recv_cq.lock().fill(self.recv_cq);
    }

    fn reset(&'static self) {
        let mut send = self.send.lock();
        self.set_state(IBV_QPS_RESET);
        self.send_cq.lock().clean(self);
        self.recv_cq.lock().clean(self);
        send.restart();
        self.forget_sent();
        self.sends_retired.store(0, Ordering::Release);
        drop(send);
        let mut receive = self.receive.lock();
        receive.restart();
        self.receives_retired.store(0, Ordering::Release);
    }

    fn discard_frames(&'static self) {
        let state = self.recv_cq.lock();
        if let Some(queue) = state.queue_of(self) {
            // No more than the queue may hold: a sender may go on meanwhile.
            for _ in 0..self.cap.max_recv_wr.max(1) {
                if !queue.receive(&mut |_, _| true) {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: u32, to: u32, mask: u32) -> Result<u32, Errno> {
        // SAFETY: integers only, for which zero is a value.
        let mut attr: ibv_qp_attr = unsafe { core::mem::zeroed() };
        attr.qp_state = to;
        attr.port_num = 1;
        next(from, &attr, mask | IBV_QP_STATE)
    }

    #[test]
    fn only_the_ladder_and_the_ways_down() {
        use IBV_QPS_ERR as ERR;
        use IBV_QPS_INIT as INIT;
        use IBV_QPS_RESET as RESET;
        use IBV_QPS_RTR as RTR;
        use IBV_QPS_RTS as RTS;
        let good = [
            (RESET, RESET),
            (INIT, INIT),
            (INIT, RTR),
            (RTR, RTS),
            (RTS, RTS),
            (INIT, ERR),
            (RTR, ERR),
            (RTS, ERR),
            (ERR, ERR),
            (INIT, RESET),
            (RTR, RESET),
            (RTS, RESET),
            (ERR, RESET),
        ];
        for from in [RESET, INIT, RTR, RTS, ERR] {
            for to in [RESET, INIT, RTR, RTS, ERR] {
                let expected = if (from, to) == (RESET, INIT) {
                    Err(Errno::INVAL)
                } else if good.contains(&(from, to)) {
                    Ok(to)
                } else {
                    Err(Errno::INVAL)
                };
                assert_eq!(change(from, to, 0), expected, "{from} to {to}");
            }
        }
        assert_eq!(change(RESET, INIT, IBV_QP_PORT), Ok(INIT));
    }

    #[test]
    fn attributes_that_raw_packets_do_not_have_are_refused() {
        let init = IBV_QP_PORT | IBV_QP_PKEY_INDEX;
        assert!(change(IBV_QPS_RESET, IBV_QPS_INIT, init).is_err());
        assert!(change(IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PORT).is_err());
        assert!(change(IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_RATE_LIMIT).is_ok());
    }

    #[test]
    fn there_is_one_port() {
        // SAFETY: integers only, for which zero is a value.
        let mut attr: ibv_qp_attr = unsafe { core::mem::zeroed() };
        attr.qp_state = IBV_QPS_INIT;
        for port in [0, 2] {
            attr.port_num = port;
            let mask = IBV_QP_STATE | IBV_QP_PORT;
            assert_eq!(next(IBV_QPS_RESET, &attr, mask), Err(Errno::INVAL));
        }
    }
}
