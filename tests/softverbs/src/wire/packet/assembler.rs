//! Instructions of the kernel's virtual machine, with labels.
//!
//! Source: Documentation/bpf/standardization/instruction-set.rst, linux/bpf.h.

/// One of the eleven registers.
pub(super) type Reg = u8;

/// Result, and scratch.
pub(super) const R0: Reg = 0;
pub(super) const R1: Reg = 1;
pub(super) const R2: Reg = 2;
pub(super) const R3: Reg = 3;
pub(super) const R4: Reg = 4;
pub(super) const R5: Reg = 5;
/// R6 to R9 survive calls.
pub(super) const R6: Reg = 6;
pub(super) const R7: Reg = 7;
pub(super) const R8: Reg = 8;
pub(super) const R9: Reg = 9;
/// Frame pointer.
pub(super) const FP: Reg = 10;

/// Width of a load or store, as it stands in the opcode.
#[derive(Clone, Copy)]
pub(super) enum Width {
    /// One byte.
    B = 0x10,
    /// Two.
    H = 0x08,
    /// Four.
    W = 0x00,
    /// Eight.
    D = 0x18,
}

/// Comparison of a conditional jump, as it stands in the opcode; unsigned.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// Equal.
    Eq = 0x10,
    /// Greater.
    Gt = 0x20,
    /// Greater or equal.
    Ge = 0x30,
    /// Bits in common.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
    /// Less.
    Lt = 0xa0,
}

/// Arithmetic, as it stands in the opcode.
#[derive(Clone, Copy)]
pub(super) enum Alu {
    /// Sum.
    Add = 0x00,
    /// Product.
    Mul = 0x20,
    /// Difference.
    Sub = 0x10,
    /// Bitwise or.
    Or = 0x40,
    /// Bitwise and.
    And = 0x50,
    /// Shift left.
    Lsh = 0x60,
    /// Copy.
    Mov = 0xb0,
}

/// Where a jump goes.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// `struct bpf_insn`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Insn>() == 8);

/// A program being written.
#[derive(Default)]
pub(super) struct Assembler {
    code: Vec<Insn>,
    /// Address of each label, once placed.
    labels: Vec<Option<usize>>,
    /// Jumps to be resolved.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, dst: Reg, src: Reg, offset: i16, immediate: i32) {
        self.code.push(Insn {
            code,
            registers: dst | src << 4,
            offset,
            immediate,
        });
    }

    /// A label that is yet to be placed.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `dst = dst op immediate`.
    pub(super) fn alu(&mut self, op: Alu, dst: Reg, immediate: i32) {
        self.push(0x07 | op as u8, dst, 0, 0, immediate);
    }

    /// `dst = dst op src`.
    pub(super) fn alu_reg(&mut self, op: Alu, dst: Reg, src: Reg) {
        self.push(0x0f | op as u8, dst, src, 0, 0);
    }

    /// `dst = immediate`.
    pub(super) fn set(&mut self, dst: Reg, immediate: i32) {
        self.alu(Alu::Mov, dst, immediate);
    }

    /// `dst = src`.
    pub(super) fn copy(&mut self, dst: Reg, src: Reg) {
        self.alu_reg(Alu::Mov, dst, src);
    }

    /// `dst = frame pointer + offset`.
    pub(super) fn stack(&mut self, dst: Reg, offset: i32) {
        self.copy(dst, FP);
        self.alu(Alu::Add, dst, offset);
    }

    /// The lower half of `dst` from network order, cleared above.
    pub(super) fn be16(&mut self, dst: Reg) {
        self.push(0xdc, dst, 0, 0, 16);
    }

    /// `dst = *(src + offset)`.
    pub(super) fn load(&mut self, width: Width, dst: Reg, src: Reg, offset: i16) {
        self.push(0x61 | width as u8, dst, src, offset, 0);
    }

    /// `*(dst + offset) = src`.
    pub(super) fn store(&mut self, width: Width, dst: Reg, offset: i16, src: Reg) {
        self.push(0x63 | width as u8, dst, src, offset, 0);
    }

    /// Exchanges the four bytes at `dst + offset` with `src`; a full barrier.
    pub(super) fn exchange(&mut self, dst: Reg, offset: i16, src: Reg) {
        self.push(0xc3, dst, src, offset, 0xe1);
    }

    /// Adds `src` to the eight bytes at `dst + offset`.
    pub(super) fn count(&mut self, dst: Reg, offset: i16, src: Reg) {
        self.push(0xdb, dst, src, offset, 0x00);
    }

    /// `dst` = the map of a descriptor.
    pub(super) fn map(&mut self, dst: Reg, fd: i32) {
        self.push(0x18, dst, 1, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// `dst` = address of the one value of a map.
    pub(super) fn map_value(&mut self, dst: Reg, fd: i32) {
        self.push(0x18, dst, 2, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// Calls a helper.
    pub(super) fn call(&mut self, helper: i32) {
        self.push(0x85, 0, 0, 0, helper);
    }

    /// Jumps.
    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, 0, 0, 0, 0);
    }

    /// Goes on as long as the kernel allows a loop to run, then jumps. The verifier then
    /// need not follow every turn.
    pub(super) fn may_go_on_or(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0xe5, 0, 0, 0, 0);
    }

    /// Jumps if `dst test immediate`.
    pub(super) fn jump_if(&mut self, test: Test, dst: Reg, immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05 | test as u8, dst, 0, 0, immediate);
    }

    /// Jumps if `dst test src`.
    pub(super) fn jump_if_reg(&mut self, test: Test, dst: Reg, src: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x0d | test as u8, dst, src, 0, 0);
    }

    /// Ends the program with R0.
    pub(super) fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    /// The finished program.
    pub(super) fn finish(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label that is jumped to is placed");
            self.code[at].offset = (target as isize - at as isize - 1) as i16;
        }
        self.code
    }
}
