//! Asynchronous copies, which happen when their thread waits for them.

use super::context::{self, Thread};
use super::fault::{Access, OtherAccess};
use super::history::Completion;
use super::memory;
use super::races::Action;
use crate::ext::U32x4;
use std::panic::Location;

/// The copies of one thread that have not happened yet.
#[derive(Default)]
pub(crate) struct Copies {
    pending: Vec<Copy>,
    /// Groups closed so far, which is also the index of the open one.
    groups: u32,
    /// Copies begun so far.
    begun: u64,
}

struct Copy {
    group: u32,
    number: u64,
    destination: u32,
    /// Nothing: zeros come.
    source: Option<u64>,
    location: &'static Location<'static>,
}

impl Thread {
    /// A copy of this thread that has not happened yet and brings some of `bytes` bytes at `offset`.
    pub(super) fn pending_copy(&self, offset: u32, bytes: u32) -> Option<OtherAccess> {
        let copies = self.copies.borrow();
        let copy = copies.pending.iter().find(|copy| {
            copy.destination < offset + bytes
                && offset < copy.destination + size_of::<U32x4>() as u32
        })?;
        Some(OtherAccess {
            access: Access::Store,
            block: self.block().index(),
            thread: self.index(),
            location: copy.location.into(),
        })
    }
}

/// Checks both ends of the copy, if there is a source, and remembers it.
#[track_caller]
pub(crate) fn copy_16(destination: u32, source: Option<u64>) {
    let location = Location::caller();
    let thread = context::current();
    let number = thread.copies.borrow().begun;
    if let Some(source) = source {
        memory::begin_copy(source, number);
    }
    let action = Action {
        completion: Completion::Copy(number),
        ..Action::new(Access::Store, location)
    };
    thread
        .block()
        .shared()
        .begin_store::<U32x4>(destination, action);
    let mut copies = thread.copies.borrow_mut();
    copies.begun += 1;
    let group = copies.groups;
    copies.pending.push(Copy {
        group,
        number,
        destination,
        source,
        location,
    });
}

/// Closes the open group.
pub(crate) fn commit_group() {
    context::current().copies.borrow_mut().groups += 1;
}

/// Performs all copies but those of the latest `groups` closed groups, and of the open one.
pub(crate) fn wait_group(groups: u32) {
    let thread = context::current();
    let mut copies = thread.copies.borrow_mut();
    let first_to_stay = copies.groups.saturating_sub(groups);
    let done = copies
        .pending
        .partition_point(|copy| copy.group < first_to_stay);
    for copy in copies.pending.drain(..done) {
        let value = match copy.source {
            // SAFETY: `copy_16`'s contract: nobody writes the source until now.
            Some(source) => unsafe { memory::finish_copy(thread, source, copy.number) },
            None => U32x4::default(),
        };
        let shared = thread.block().shared();
        shared.finish_store(copy.destination, value);
        if let Some(mut races) = thread.cluster().races_mut() {
            races.settle_shared(thread.place(), copy.number, copy.destination);
        }
    }
}

/// Performs all copies.
pub(crate) fn wait_all() {
    commit_group();
    wait_group(0);
}
