//! The allocator: mimalloc, asked for no alignment that it gives anyway.
//!
//! Asked for one, it has a fast path only for sizes that are powers of two. Most of what we
//! allocate is not: a node of a map in JSON has 632 bytes, and would take the slow path every time.
#![expect(unsafe_code, reason = "an allocator cannot be anything else")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::time::Duration;

use libmimalloc_sys::{mi_malloc, mi_realloc, mi_zalloc};
use mimalloc::MiMalloc;
use tokio::time::Instant;

/// What every block is aligned to: sizes are rounded up to whole words, and pages begin at more.
const ALIGNED: usize = size_of::<usize>();

/// The number of mimalloc's option that says how long it waits before it gives memory back.
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// Longer than a start takes.
const START_MILLIS: c_long = 2_000;

/// Has what is freed stay here, to be used again: a start takes and frees the same memory many
/// times, and a fifth of its time would go into that.
pub fn keep_for_now() {
    // SAFETY: the option exists in every version of mimalloc, and may be set at any time.
    unsafe { mi_option_set(PURGE_DELAY, START_MILLIS) };
}

/// Has what is freed go back to the system at once, and not when somebody next allocates: after a
/// start or a burst nobody does, and an idle program would keep twice what it needs. No benchmark
/// showed a cost.
pub fn give_back_at_once() {
    // SAFETY: the option exists in every version of mimalloc, and may be set at any time.
    unsafe { mi_option_set(PURGE_DELAY, 0) };
}

/// The same, and what was freed until now goes back too.
pub fn give_back_all() {
    // First: where nothing is kept, nothing that was kept is looked for.
    // SAFETY: it may be called at any time.
    unsafe { mi_collect(true) };
    give_back_at_once();
}

/// How long a thread leaves what others have freed of its memory, at least.
const COLLECT_AFTER: Duration = Duration::from_secs(1);

/// Gives back what other threads have freed of this one's memory; called when it has nothing to do.
/// Else that stays until it next allocates something of the same size, which after a burst may be
/// never.
pub fn collect_when_idle() {
    thread_local! {
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    if LAST.get().is_some_and(|last| now.duration_since(last) < COLLECT_AFTER) {
        return;
    }
    LAST.set(Some(now));
    // SAFETY: it may be called at any time.
    unsafe { mi_collect(false) };
}

pub struct Allocator;

// SAFETY: every block comes from mimalloc, has the size that was asked for, and is aligned as was
// asked for: to a word at least, and by mimalloc's own rules beyond that.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            // SAFETY: any size may be asked for.
            ..=ALIGNED => unsafe { mi_malloc(layout.size()) }.cast(),
            // SAFETY: the caller keeps the contract.
            _ => unsafe { MiMalloc.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            // SAFETY: any size may be asked for.
            ..=ALIGNED => unsafe { mi_zalloc(layout.size()) }.cast(),
            // SAFETY: the caller keeps the contract.
            _ => unsafe { MiMalloc.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the block is of mimalloc, however it was asked for.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match layout.align() {
            // SAFETY: the block is of mimalloc, and nobody else uses it.
            ..=ALIGNED => unsafe { mi_realloc(pointer.cast(), size) }.cast(),
            // SAFETY: the caller keeps the contract.
            _ => unsafe { MiMalloc.realloc(pointer, layout, size) },
        }
    }
}
