//! The order in which the calls of one model answer run.
//!
//! A batch is cut into segments that run one after the other. Neighbouring calls that are parallel-safe share a
//! segment and run side by side; any other call is a segment of its own, and so a barrier.

use std::ops::Range;

use futures::{StreamExt, stream};

/// Calls in flight at once within a segment.
const MAX_PARALLEL_CALLS: usize = 8;

/// Splits a batch into the longest runs of parallel-safe calls; every other call is a segment of its own.
pub fn segments<T>(calls: &[T], is_parallel_safe: impl Fn(&T) -> bool) -> Vec<Range<usize>> {
    let mut segments: Vec<Range<usize>> = Vec::new();
    let mut last_is_open = false;
    for (index, call) in calls.iter().enumerate() {
        let is_safe = is_parallel_safe(call);
        match segments.last_mut() {
            Some(segment) if last_is_open && is_safe => segment.end = index + 1,
            _ => segments.push(index..index + 1),
        }
        last_is_open = is_safe;
    }
    segments
}

/// Runs a batch and returns the results in the order of the calls.
///
/// Nothing is spawned: dropping the returned future drops every call that is still running.
pub async fn run_batch<T, R, F, Fut>(
    calls: Vec<T>,
    is_parallel_safe: impl Fn(&T) -> bool,
    run_one: F,
) -> Vec<R>
where
    F: Fn(T) -> Fut,
    Fut: Future<Output = R>,
{
    let segments = segments(&calls, is_parallel_safe);
    let mut results = Vec::with_capacity(calls.len());
    let mut calls = calls.into_iter();
    for segment in segments {
        let running = calls
            .by_ref()
            .take(segment.len())
            .enumerate()
            .map(|(index, call)| {
                let result = run_one(call);
                async move { (index, result.await) }
            });
        let mut finished: Vec<(usize, R)> = stream::iter(running)
            .buffer_unordered(MAX_PARALLEL_CALLS)
            .collect()
            .await;
        finished.sort_unstable_by_key(|(index, _)| *index);
        results.extend(finished.into_iter().map(|(_, result)| result));
    }
    results
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, pin::pin};

    use futures::{channel::oneshot, poll};

    use super::*;

    #[test]
    fn runs_of_safe_calls_share_a_segment_and_others_stand_alone() {
        let cut = |calls: &str| {
            let calls: Vec<char> = calls.chars().collect();
            segments(&calls, |call| *call == 's')
        };
        assert!(cut("").is_empty());
        assert_eq!(cut("sssx"), [0..3, 3..4]);
        assert_eq!(cut("xx"), [0..1, 1..2]);
        assert_eq!(cut("ssxsxxs"), [0..2, 2..3, 3..4, 4..5, 5..6, 6..7]);
        assert_eq!(cut("xss"), [0..1, 1..3]);
    }

    /// Calls that begin when polled and end when told to.
    #[derive(Default)]
    struct Calls {
        running: RefCell<Vec<(usize, oneshot::Sender<()>)>>,
    }

    impl Calls {
        async fn run(&self, call: usize) -> usize {
            let (sender, end) = oneshot::channel();
            self.running.borrow_mut().push((call, sender));
            let _ = end.await;
            call
        }

        fn running(&self) -> Vec<usize> {
            self.running
                .borrow()
                .iter()
                .map(|(call, _)| *call)
                .collect()
        }

        fn end(&self, call: usize) {
            let mut running = self.running.borrow_mut();
            let at = running.iter().position(|(c, _)| *c == call).unwrap();
            running.remove(at).1.send(()).unwrap();
        }

        /// Whether each running call still has somebody waiting for it.
        fn awaited(&self) -> Vec<bool> {
            let running = self.running.borrow();
            running.iter().map(|(_, end)| !end.is_canceled()).collect()
        }
    }

    #[tokio::test]
    async fn safe_calls_overlap_and_results_keep_the_order_of_the_calls() {
        let calls = Calls::default();
        let mut batch = pin!(run_batch(vec![0, 1, 2], |_| true, |call| calls.run(call)));
        assert!(poll!(&mut batch).is_pending());
        assert_eq!(calls.running(), [0, 1, 2]);
        for call in [2, 0, 1] {
            assert!(poll!(&mut batch).is_pending());
            calls.end(call);
        }
        assert_eq!(batch.await, [0, 1, 2]);
    }

    #[tokio::test]
    async fn other_calls_wait_for_each_other() {
        let calls = Calls::default();
        let mut batch = pin!(run_batch(vec![0, 1, 2], |_| false, |call| calls.run(call)));
        for call in 0..3 {
            assert!(poll!(&mut batch).is_pending());
            assert_eq!(calls.running(), [call]);
            calls.end(call);
        }
        assert_eq!(batch.await, [0, 1, 2]);
    }

    #[tokio::test]
    async fn a_barrier_waits_for_what_precedes_it_and_holds_up_what_follows() {
        const BARRIER: usize = 2;
        let calls = Calls::default();
        let is_safe = |call: &usize| *call != BARRIER;
        let mut batch = pin!(run_batch(vec![0, 1, BARRIER, 3], is_safe, |call| calls.run(call)));
        assert!(poll!(&mut batch).is_pending());
        assert_eq!(calls.running(), [0, 1]);
        calls.end(1);
        assert!(poll!(&mut batch).is_pending());
        assert_eq!(calls.running(), [0]);
        calls.end(0);
        assert!(poll!(&mut batch).is_pending());
        assert_eq!(calls.running(), [BARRIER]);
        calls.end(BARRIER);
        assert!(poll!(&mut batch).is_pending());
        assert_eq!(calls.running(), [3]);
        calls.end(3);
        assert_eq!(batch.await, [0, 1, BARRIER, 3]);
    }

    #[tokio::test]
    async fn at_most_eight_run_at_once_and_a_slow_first_holds_up_nobody() {
        let calls = Calls::default();
        let mut batch = pin!(run_batch(
            (0..20).collect(),
            |_| true,
            |call| calls.run(call)
        ));
        assert!(poll!(&mut batch).is_pending());
        assert_eq!(calls.running(), [0, 1, 2, 3, 4, 5, 6, 7]);
        for call in 1..20 {
            calls.end(call);
            assert!(poll!(&mut batch).is_pending());
            assert_eq!(calls.running().len(), 8.min(20 - call));
        }
        calls.end(0);
        assert_eq!(batch.await, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_of_sendable_calls_can_move_between_threads() {
        fn is_send(_: impl Send) {}
        is_send(run_batch(vec![1], |_| true, |call| async move { call }));
    }

    #[tokio::test]
    async fn dropping_the_batch_drops_the_calls() {
        let calls = Calls::default();
        let mut batch = Box::pin(run_batch(vec![0, 1], |_| true, |call| calls.run(call)));
        assert!(poll!(&mut batch).is_pending());
        assert_eq!(calls.awaited(), [true, true]);
        drop(batch);
        assert_eq!(calls.awaited(), [false, false]);
    }
}
