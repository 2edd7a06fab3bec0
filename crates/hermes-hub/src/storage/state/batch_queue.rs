//! What waits at the same time is done together, by one of those who wait.
//!
//! Whoever finds nobody at work works at once, for itself. Meanwhile others wait; then the first of them works for all that
//! wait. So a lone request is not delayed, and under load a few statements are enough for many. Whoever works must not be
//! dropped, or its batch fails: changes run in tasks of the Hub, which a client that goes away does not end.

use std::{collections::VecDeque, fmt, sync::Arc};

use hermes_config::{sync::Mutex, traced_span};
use tokio::sync::oneshot;
use tracing::{Instrument as _, field::Empty};

use super::StateError;

/// Items that wait, and whether somebody works.
pub(super) struct BatchQueue<I, O>(Mutex<WaitingItems<I, O>>);

struct WaitingItems<I, O> {
    is_at_work: bool,
    waiting: VecDeque<QueuedItem<I, O>>,
}

struct QueuedItem<I, O> {
    item: I,
    answer: oneshot::Sender<BatchOutcome<I, O>>,
}

/// What somebody who waits is told.
enum BatchOutcome<I, O> {
    /// To work, for itself and for others.
    Work(I, WorkPermit<I, O>),
    Done(Result<O, StateError>),
}

/// The right to work. Dropped, it goes to the next who waits.
struct WorkPermit<I, O>(Option<Arc<BatchQueue<I, O>>>);

type BatchReceiver<I, O> = oneshot::Receiver<BatchOutcome<I, O>>;

impl<I, O> Drop for WorkPermit<I, O> {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.pass_on();
        }
    }
}

impl<I, O> fmt::Debug for BatchQueue<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchQueue").finish_non_exhaustive()
    }
}

impl<I, O> BatchQueue<I, O> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(WaitingItems {
            is_at_work: false,
            waiting: VecDeque::new(),
        })))
    }

    /// Has an item worked on, alone or with at most so many others. `work` returns an outcome for each, in order.
    pub(super) async fn run<F>(
        self: &Arc<Self>,
        item: I,
        most: usize,
        work: impl FnOnce(Vec<I>) -> F,
    ) -> Result<O, StateError>
    where
        F: Future<Output = Vec<Result<O, StateError>>>,
    {
        let (item, permit) = match self.enter(item) {
            Ok(entered) => entered,
            Err(answer) => match answer.await {
                Ok(BatchOutcome::Work(item, permit)) => (item, permit),
                Ok(BatchOutcome::Done(outcome)) => return outcome,
                Err(_) => return Err(abandoned()),
            },
        };
        let (mut items, mut answers) = (vec![item], Vec::new());
        for queued in self.take_waiting(most) {
            items.push(queued.item);
            answers.push(queued.answer);
        }
        let mut outcomes = work(items).await.into_iter();
        let own = outcomes.next();
        // Before the answers: the next batch begins while these are on their way.
        drop(permit);
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // Whoever has stopped waiting does not need to know.
            let _ = answer.send(BatchOutcome::Done(outcome));
        }
        own.unwrap_or_else(|| Err(abandoned()))
    }

    /// The permit, or where to wait for it.
    fn enter(self: &Arc<Self>, item: I) -> Result<(I, WorkPermit<I, O>), BatchReceiver<I, O>> {
        let mut state = self.0.lock();
        if !state.is_at_work {
            state.is_at_work = true;
            return Ok((item, WorkPermit(Some(Arc::clone(self)))));
        }
        let (answer, receiver) = oneshot::channel();
        state.waiting.push_back(QueuedItem { item, answer });
        Err(receiver)
    }

    /// Those who wait, without those who have stopped waiting: nothing is done for them.
    fn take_waiting(&self, most: usize) -> Vec<QueuedItem<I, O>> {
        let mut state = self.0.lock();
        let count = most.min(state.waiting.len());
        let mut taken: Vec<_> = state.waiting.drain(..count).collect();
        drop(state);
        taken.retain(|queued| !queued.answer.is_closed());
        taken
    }

    /// Has the next who waits work.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.0.lock();
                let next = state.waiting.pop_front();
                state.is_at_work = next.is_some();
                next
            };
            let Some(next) = next else {
                return;
            };
            let permit = WorkPermit(Some(Arc::clone(self)));
            match next.answer.send(BatchOutcome::Work(next.item, permit)) {
                Err(BatchOutcome::Work(_, mut permit)) => permit.0 = None,
                _ => return,
            }
        }
    }
}

fn abandoned() -> StateError {
    StateError::Unavailable("the batch was abandoned".into())
}

/// Commits, in an exported span of its own if spans are exported. `commit` returns how many writes it was for.
pub(super) async fn trace_commit<E>(
    system: &'static str,
    commit: impl Future<Output = Result<u32, E>>,
) -> Result<(), E> {
    let span = traced_span!(
        "commit",
        otel.status_code = Empty,
        db.system.name = system,
        db.operation.batch.size = Empty
    );
    let committed = commit.instrument(span.clone()).await;
    match &committed {
        Ok(writes) => span.record("db.operation.batch.size", i64::from(*writes)),
        Err(_) => span.record("otel.status_code", "ERROR"),
    };
    committed.map(drop)
}

#[cfg(test)]
mod tests {
    use futures::{future::join_all, poll};
    use tokio::sync::Semaphore;

    use super::*;

    type Numbers = BatchQueue<u32, u32>;

    /// Ten times each number, after a permit; how many came together is noted.
    async fn make(
        queue: &Arc<Numbers>,
        number: u32,
        gate: &Semaphore,
        sizes: &Mutex<Vec<usize>>,
    ) -> Result<u32, StateError> {
        let work = async |numbers: Vec<u32>| {
            gate.acquire().await.unwrap().forget();
            sizes.lock().push(numbers.len());
            let refuse = |number: u32| match number {
                13 => Err(StateError::NotFound { what: "number" }),
                number => Ok(number * 10),
            };
            numbers.into_iter().map(refuse).collect()
        };
        queue.run(number, 20, work).await
    }

    #[tokio::test]
    async fn what_waits_is_done_together_and_each_gets_its_own_outcome() {
        let (queue, gate) = (Numbers::new(), Semaphore::new(0));
        let sizes = Mutex::default();
        let mut all = Box::pin(join_all(
            (0..30).map(|number| make(&queue, number, &gate, &sizes)),
        ));
        assert!(poll!(&mut all).is_pending());
        gate.add_permits(30);
        for (number, outcome) in (0..).zip(all.await) {
            match number {
                13 => assert!(outcome.is_err()),
                number => assert_eq!(outcome.unwrap(), number * 10),
            }
        }
        // The first alone, then as many as may come together, then the rest.
        assert_eq!(*sizes.lock(), [1, 21, 8]);
        assert_eq!(make(&queue, 7, &gate, &sizes).await.unwrap(), 70);
    }

    #[tokio::test]
    async fn nothing_is_done_for_whoever_stops_waiting() {
        let (queue, gate) = (Numbers::new(), Semaphore::new(0));
        let sizes = Mutex::default();
        let mut first = Box::pin(make(&queue, 1, &gate, &sizes));
        let mut left = Box::pin(make(&queue, 2, &gate, &sizes));
        let mut last = Box::pin(make(&queue, 3, &gate, &sizes));
        assert!(poll!(&mut first).is_pending());
        assert!(poll!(&mut left).is_pending());
        assert!(poll!(&mut last).is_pending());
        drop(left);
        gate.add_permits(3);
        assert_eq!(first.await.unwrap(), 10);
        assert_eq!(last.await.unwrap(), 30);
        assert_eq!(*sizes.lock(), [1, 1]);
    }

    #[tokio::test]
    async fn if_the_one_who_works_is_dropped_its_batch_fails_and_the_next_one_works() {
        let (queue, gate) = (Numbers::new(), Semaphore::new(0));
        let sizes = Mutex::default();
        let mut first = Box::pin(make(&queue, 1, &gate, &sizes));
        assert!(poll!(&mut first).is_pending());
        let mut leader = Box::pin(make(&queue, 2, &gate, &sizes));
        let mut member = Box::pin(make(&queue, 3, &gate, &sizes));
        assert!(poll!(&mut leader).is_pending());
        assert!(poll!(&mut member).is_pending());
        gate.add_permits(1);
        first.await.unwrap();
        // It works for itself and for the other one.
        assert!(poll!(&mut leader).is_pending());
        let mut next = Box::pin(make(&queue, 4, &gate, &sizes));
        assert!(poll!(&mut next).is_pending());
        drop(leader);
        assert!(matches!(member.await, Err(StateError::Unavailable(_))));
        gate.add_permits(1);
        assert_eq!(next.await.unwrap(), 40);
    }

    #[tokio::test]
    async fn a_turn_that_nobody_takes_goes_to_the_next() {
        let (queue, gate) = (Numbers::new(), Semaphore::new(0));
        let sizes = Mutex::default();
        let mut first = Box::pin(make(&queue, 1, &gate, &sizes));
        let mut second = Box::pin(make(&queue, 2, &gate, &sizes));
        let mut third = Box::pin(make(&queue, 3, &gate, &sizes));
        assert!(poll!(&mut first).is_pending());
        assert!(poll!(&mut second).is_pending());
        assert!(poll!(&mut third).is_pending());
        gate.add_permits(1);
        first.await.unwrap();
        // Its turn has come, but it never looks.
        drop(second);
        gate.add_permits(1);
        assert_eq!(third.await.unwrap(), 30);
    }
}
