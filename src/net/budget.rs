//! `queued.max.request.bytes`: bytes of requests that may be in memory at once, over all connections.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The budget. A connection that finds it used up is not read from until others have been answered.
#[derive(Debug)]
pub struct RequestBudget {
    /// May go below zero by one request, as in Kafka: otherwise a request larger than the budget could never be read.
    available: Mutex<i64>,
    freed: Notify,
}

/// A request's share, given back when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Option<Arc<RequestBudget>>,
    bytes: i64,
}

impl RequestBudget {
    /// `None` for a limit below zero, which means no limit.
    pub fn new(limit_bytes: i64) -> Option<Arc<RequestBudget>> {
        (limit_bytes > 0).then(|| Arc::new(RequestBudget { available: Mutex::new(limit_bytes), freed: Notify::new() }))
    }

    /// Waits until something is available, then takes `bytes`.
    pub async fn take(budget: Option<&Arc<RequestBudget>>, bytes: usize) -> Share {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let Some(budget) = budget else { return Share { budget: None, bytes } };
        loop {
            let freed = budget.freed.notified();
            {
                let mut available = budget.available.lock();
                if *available > 0 {
                    *available -= bytes;
                    return Share { budget: Some(budget.clone()), bytes };
                }
            }
            freed.await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            *budget.available.lock() += self.bytes;
            budget.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_used_up_budget_waits_for_an_answer() {
        let budget = RequestBudget::new(100);
        let first = RequestBudget::take(budget.as_ref(), 150).await;
        let mut second = Box::pin(RequestBudget::take(budget.as_ref(), 1));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let _second = second.await;
        assert!(RequestBudget::take(budget.as_ref(), 1).now_or_never().is_some());
    }

    #[tokio::test]
    async fn no_limit_never_waits() {
        assert!(RequestBudget::new(-1).is_none());
        let _all = RequestBudget::take(None, usize::MAX).await;
        assert!(RequestBudget::take(None, usize::MAX).now_or_never().is_some());
    }
}
