//! How much memory a piece of work takes at its peak, counted for the thread that does it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// What the work returns, and the most bytes it had allocated at once beyond those there were
/// before.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    // Memory that another thread handed over may be freed here: the count starts well above zero.
    const FLOOR: usize = 1 << 40;
    LIVE.set(FLOOR);
    PEAK.set(FLOOR);
    let result = work();
    (result, PEAK.get() - FLOOR)
}

fn taken(bytes: usize) {
    let live = LIVE.get().wrapping_add(bytes);
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

fn subtract(bytes: usize) {
    LIVE.set(LIVE.get().wrapping_sub(bytes));
}

// SAFETY: everything is left to the system's allocator; the counters are plain cells that allocate
// nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may exist for a moment.
        taken(size);
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[test]
fn allocation_counter_is_correct() {
    let (kept, peak) = peak_of(|| {
        let first = vec![1u8; 3 << 20];
        drop(first);
        vec![0u8; 2 << 20]
    });
    assert_eq!((kept.len(), peak), (2 << 20, 3 << 20));
}
