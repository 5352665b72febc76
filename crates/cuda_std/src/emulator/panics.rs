//! Panics of kernel code: caught, kept off standard error, and remembered with their place.

use super::context;
use super::fault::SourceLocation;
use core::any::Any;
use core::cell::RefCell;
use std::panic;
use std::sync::Once;
use std::thread;

thread_local! {
    static LAST_PANIC: RefCell<Option<SourceLocation>> = const { RefCell::new(None) };
}

/// From now on a panic inside a kernel prints nothing: the launch reports it. Others go to the hook there was.
///
/// A place is known to the hook alone, so there is no other way to name it in the fault.
pub(super) fn install_hook() {
    static INSTALLED: Once = Once::new();
    // A thread that panics, and launches in a `drop` on its way, may not set a hook: that would end the process.
    if thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let outer = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if context::in_kernel() {
                let location = info.location().map(SourceLocation::from);
                LAST_PANIC.with(|last| *last.borrow_mut() = location);
            } else {
                outer(info);
            }
        }));
    });
}

/// Where the last panic of a kernel on this OS thread was.
pub(super) fn take_location() -> Option<SourceLocation> {
    LAST_PANIC.with(|last| last.borrow_mut().take())
}

/// The message of a panic.
pub(super) fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(message) = payload.downcast_ref::<&str>() {
        (*message).into()
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message.clone()
    } else {
        "a payload that is not a string".into()
    }
}
