//! Work that begins again after a panic: a bug in one part holds up nothing else.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// Does something until it ends by itself. After a panic it is reported, and begun again after a pause; `None` if it is
/// to stop by then.
pub(in crate::inbound) async fn restart_after_panics<T, W: Future<Output = T>>(
    stop: &CancellationToken,
    pause: Duration,
    mut begin: impl FnMut() -> W,
    mut report: impl FnMut(),
) -> Option<T> {
    loop {
        if let Ok(ended) = AssertUnwindSafe(begin()).catch_unwind().await {
            return Some(ended);
        }
        report();
        stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn what_panics_is_reported_and_begun_again_until_it_ends() {
        let (begun, reported) = (Cell::new(0), Cell::new(0));
        let stop = CancellationToken::new();
        let work = || async {
            begun.set(begun.get() + 1);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(begun.get() > 2, "a bug");
            begun.get()
        };
        let report = || reported.set(reported.get() + 1);
        let start = tokio::time::Instant::now();
        let ended = restart_after_panics(&stop, PAUSE, work, report).await;
        assert_eq!((ended, reported.get()), (Some(3), 2));
        assert_eq!(start.elapsed(), 2 * PAUSE + Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_to_stop_is_not_begun_again() {
        let stop = CancellationToken::new();
        let begun = Cell::new(0);
        let work = || async {
            begun.set(begun.get() + 1);
            panic!("a bug");
        };
        let ended: Option<()> = restart_after_panics(&stop, PAUSE, work, || stop.cancel()).await;
        assert_eq!((ended, begun.get()), (None, 1));
    }
}
