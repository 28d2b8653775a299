//! Rules that a test can switch off, to see that a pool finds what they are for. Each core names its own.

#[cfg(test)]
use std::any::Any;
#[cfg(test)]
use std::cell::RefCell;

#[cfg(not(test))]
pub const fn holds<R: Copy + PartialEq + 'static>(_: R) -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static OFF: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

#[cfg(test)]
pub fn holds<R: Copy + PartialEq + 'static>(rule: R) -> bool {
    OFF.with_borrow(|off| off.as_ref().and_then(|off| off.downcast_ref()) != Some(&rule))
}

/// Runs `work` without `rule`, on this thread.
#[cfg(test)]
pub fn without<R: Copy + PartialEq + 'static, T>(rule: R, work: impl FnOnce() -> T) -> T {
    OFF.set(Some(Box::new(rule)));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    OFF.set(None);
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
