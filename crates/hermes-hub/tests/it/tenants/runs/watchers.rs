//! All watchers see the same sequence, whenever they connect and however often they disconnect.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use hermes_hub::{RunId, TenantId, api_types::StoredEvent, tenants::runs::RunStreamItem};

use crate::agent_harness::{AgentHarness, TIMEOUT};

struct TestRandom(u64);

impl TestRandom {
    fn new(seed: u64) -> Self {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        Self(u64::from(now.subsec_nanos()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Watches a run to its end, disconnecting repeatedly and resuming after the last event.
async fn watch_with_drops(
    world: &AgentHarness,
    tenant: &TenantId,
    run: &RunId,
    mut dice: TestRandom,
) -> Vec<StoredEvent> {
    let mut seen: Vec<StoredEvent> = Vec::new();
    loop {
        let after = seen.last().map_or(0, |event| event.id);
        let mut events = world.runs.events(tenant, run, after);
        let mut left = 1 + dice.below(20);
        loop {
            match events.next().await {
                Some(Ok(RunStreamItem::Event(event))) => seen.push((*event).clone()),
                Some(other) => panic!("no event: {other:?}"),
                None => return seen,
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(dice.below(30))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_watchers_with_random_drops_see_one_sequence_and_replay_is_equal() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    world.agent.break_connections(Some(17));
    let script = "say=20 tool ".repeat(40);
    let run = world.run(&tenant, &script).await.run_id;
    let watchers =
        (0..10).map(|seed| watch_with_drops(&world, &tenant, &run, TestRandom::new(seed)));
    let all = tokio::time::timeout(TIMEOUT, futures::future::join_all(watchers));
    let sequences = all.await.expect("watchers do not come to an end");
    let expected: Vec<u64> = (1..=sequences[0].len() as u64).collect();
    assert!(expected.len() > 80, "{} events", expected.len());
    for sequence in &sequences {
        let ids: Vec<u64> = sequence.iter().map(|event| event.id).collect();
        assert_eq!(ids, expected);
        assert_eq!(sequence, &sequences[0]);
    }
    let world = world.kill_and_restart().await;
    assert_eq!(world.events(&tenant, &run).await, sequences[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_sleeps_misses_nothing() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    // More events than are buffered.
    let script = "tool ".repeat(400);
    let run = world.run(&tenant, &script).await.run_id;
    let mut slow = world.runs.events(&tenant, &run, 0);
    let first = slow.next().await.unwrap().unwrap();
    let all = world.events(&tenant, &run).await;
    let rest: Vec<_> = slow.map(Result::unwrap).collect().await;
    let seen: Vec<u64> = std::iter::once(first)
        .chain(rest)
        .map(|watched| match watched {
            RunStreamItem::Event(event) => event.id,
            RunStreamItem::Gap { .. } => panic!("a gap"),
        })
        .collect();
    let ids: Vec<u64> = all.iter().map(|event| event.id).collect();
    assert_eq!(seen, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_of_a_run_that_is_not_there_is_told_so() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let mut events = world.runs.events(&tenant, &RunId::random().unwrap(), 0);
    let problem = events.next().await.unwrap().unwrap_err();
    assert_eq!(problem.code.status(), 404);
    assert!(events.next().await.is_none());
}
