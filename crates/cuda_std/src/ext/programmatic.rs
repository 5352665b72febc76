//! Programmatic dependent launch: a kernel that begins before the one ahead of it on the stream has ended. Devices from
//! sm_90 on; before, kernels never overlap so, and there is nothing to say.

/// Lets the launch behind this one on the stream begin, if it asked for that, once every block of this one has called
/// or returned; then waits until all work that this launch depends on is done and can be seen.
///
/// To be called before memory is touched that earlier work writes or reads, by launches that asked to begin early. For
/// others there is nothing to wait for.
///
/// | who calls | valid in | scratch | afterwards |
/// |---|---|---|---|
/// | any thread, once | that thread | none | memory is as in a launch that begins when all before it has ended |
#[inline(always)]
pub fn begin() {
    by_target! {
        device: {
            // SAFETY: neither touches a register, and what memory is like afterwards is what it would be without them.
            #[cfg(target_feature = "sm_90")]
            unsafe {
                core::arch::asm!(
                    "griddepcontrol.launch_dependents;",
                    "griddepcontrol.wait;",
                    options(nostack),
                );
            }
        },
        // In the emulator launches follow each other.
        host: (),
    }
}
