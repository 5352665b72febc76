//! The symbols' bodies for x86-64, System V calling convention.

/// Calls through the slot with the arguments as they came, then tail-calls `clamp` on the status.
/// Only for functions whose arguments all travel in registers: on the stack they would be eight
/// bytes further up.
macro_rules! call_slot {
    ($name:ident) => {
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            ".cfi_startproc",
            "sub rsp, 8", // the stack is 16-byte aligned at a call
            ".cfi_adjust_cfa_offset 8",
            "call qword ptr [rip + {slot}]",
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "mov edi, eax",
            "jmp {clamp}",
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
            "jmp {function}",
            function = sym crate::forward::typed::$name,
        )
    };
}

/// Returns a status, whatever the arguments.
macro_rules! return_status {
    ($status:expr) => {
        std::arch::naked_asm!("mov eax, {status}", "ret", status = const $status)
    };
}
