//! Asynchronous copies, which happen when their thread waits for them.

use super::{context, memory};
use crate::ext::U32x4;

/// The copies of one thread that have not happened yet.
#[derive(Default)]
pub(crate) struct Copies {
    pending: Vec<Copy>,
    /// Groups closed so far, which is also the index of the open one.
    groups: u32,
}

struct Copy {
    group: u32,
    destination: u32,
    source: u64,
}

/// Checks both ends of the copy, and remembers it.
#[track_caller]
pub(crate) fn copy_16(destination: u32, source: u64) {
    let thread = context::current();
    memory::check_load::<U32x4>(source);
    thread.block().shared().begin_store::<U32x4>(destination);
    let mut copies = thread.copies.borrow_mut();
    let group = copies.groups;
    copies.pending.push(Copy {
        group,
        destination,
        source,
    });
}

/// Closes the open group.
pub(crate) fn commit_group() {
    context::current().copies.borrow_mut().groups += 1;
}

/// Performs all copies but those of the latest `groups` closed groups, and of the open one.
#[track_caller]
pub(crate) fn wait_group(groups: u32) {
    let thread = context::current();
    let mut copies = thread.copies.borrow_mut();
    let first_to_stay = copies.groups.saturating_sub(groups);
    let done = copies
        .pending
        .partition_point(|copy| copy.group < first_to_stay);
    for copy in copies.pending.drain(..done) {
        // SAFETY: `copy_16`'s contract: nobody writes the source until now.
        let value = unsafe { memory::load::<U32x4>(copy.source) };
        thread.block().shared().store(copy.destination, value);
    }
}

/// Performs all copies.
#[track_caller]
pub(crate) fn wait_all() {
    commit_group();
    wait_group(0);
}
