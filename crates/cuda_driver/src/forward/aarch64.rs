//! The symbols' bodies for aarch64, AAPCS64 calling convention.

/// Calls through the slot with the arguments as they came, then tail-calls `clamp` on the status.
/// Only for functions whose arguments all travel in registers: on the stack they would be sixteen
/// bytes further up.
macro_rules! call_slot {
    ($name:ident) => {
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            ".cfi_startproc",
            "stp x29, x30, [sp, #-16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset w30, -8",
            ".cfi_offset w29, -16",
            "mov x29, sp",
            "adrp x16, {slot}",
            "add x16, x16, :lo12:{slot}",
            "ldar x16, [x16]",
            "blr x16",
            "ldp x29, x30, [sp], #16",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore w30",
            ".cfi_restore w29",
            "b {clamp}", // the status is in w0, where `clamp` takes it
            ".cfi_endproc",
            slot = sym slot::$name,
            clamp = sym crate::forward::clamp,
        )
    };
}

/// Goes on in the Rust function of the same name, which sees the same arguments.
macro_rules! jump_to_typed {
    ($name:ident) => {
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            "b {function}",
            function = sym crate::forward::typed::$name,
        )
    };
}

/// Returns a status, whatever the arguments.
macro_rules! return_status {
    ($status:expr) => {
        std::arch::naked_asm!("mov w0, #{status}", "ret", status = const $status)
    };
}
