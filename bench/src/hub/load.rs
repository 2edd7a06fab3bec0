//! Many connections that ask as fast as they are answered.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::wire::RawConnection;
use crate::{environment::RuntimeFlavour, report::Quantity, samples::Samples};

/// Somebody who asks these things in turns, on a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct LoadClient {
    pub(crate) requests: Arc<[Vec<u8>]>,
    /// Where it begins.
    pub(crate) first: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    pub(crate) latencies: Samples,
    time: Duration,
}

impl LoadResult {
    /// Requests in a second.
    pub(crate) fn rate(&self) -> Quantity {
        let seconds = self.time.as_secs_f64().max(f64::EPSILON);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 requests")]
        let count = self.latencies.count() as f64;
        Quantity::Rate(count / seconds)
    }

    /// Puts the outcome of another round to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.latencies.extend(&other.latencies);
        self.time += other.time;
    }
}

/// Has all clients ask for a time.
pub(crate) fn run_load(port: u16, clients: Vec<LoadClient>, time: Duration) -> Result<LoadResult> {
    run_paced_load(port, clients, time, Duration::ZERO)
}

/// Has all clients ask for a time, each so often: none sooner than that after it began to ask before.
pub(crate) fn run_paced_load(
    port: u16,
    clients: Vec<LoadClient>,
    time: Duration,
    every: Duration,
) -> Result<LoadResult> {
    run_load_on_nodes(&[port], clients, time, every)
}

/// The same, with the clients spread over several nodes.
pub(crate) fn run_load_on_nodes(
    ports: &[u16],
    clients: Vec<LoadClient>,
    time: Duration,
    every: Duration,
) -> Result<LoadResult> {
    let ports = ports.to_vec();
    RuntimeFlavour::OneThread.run(async move {
        let mut connections = Vec::new();
        for (client, port) in clients.into_iter().zip(ports.into_iter().cycle()) {
            connections.push((RawConnection::open(port).await?, client));
        }
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for (connection, client) in connections {
            tasks.spawn(run_client(connection, client, began + time, every));
        }
        let mut outcome = LoadResult::default();
        while let Some(samples) = tasks.join_next().await {
            outcome.latencies.extend(&samples??);
        }
        outcome.time = began.elapsed();
        Ok(outcome)
    })
}

async fn run_client(
    mut connection: RawConnection,
    client: LoadClient,
    end: Instant,
    every: Duration,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for request in client.requests.iter().cycle().skip(client.first) {
        let began = Instant::now();
        if began >= end {
            break;
        }
        connection.exchange(request).await?.check()?;
        samples.push(began.elapsed());
        if !every.is_zero() {
            tokio::time::sleep_until((began + every).into()).await;
        }
    }
    Ok(samples)
}

/// Sends all requests, each once, on so many connections.
pub(crate) fn send_each_once(
    port: u16,
    requests: Vec<Vec<u8>>,
    connections: usize,
) -> Result<Samples> {
    let waiting = Arc::new(Mutex::new(VecDeque::from(requests)));
    RuntimeFlavour::OneThread.run(async move {
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let waiting = Arc::clone(&waiting);
            tasks.spawn(async move {
                let mut connection = RawConnection::open(port).await?;
                let mut samples = Samples::default();
                let next = || {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.pop_front()
                };
                while let Some(request) = next() {
                    let began = Instant::now();
                    connection.exchange(&request).await?.check()?;
                    samples.push(began.elapsed());
                }
                Ok::<_, anyhow::Error>(samples)
            });
        }
        let mut all = Samples::default();
        while let Some(samples) = tasks.join_next().await {
            all.extend(&samples??);
        }
        Ok(all)
    })
}

/// Asks once, and gives the whole answer.
pub(crate) fn send_once(port: u16, request: Vec<u8>) -> Result<serde_json::Value> {
    RuntimeFlavour::OneThread.run(async move {
        let mut connection = RawConnection::open(port).await?;
        let answer = connection.exchange(&request).await?;
        answer.check()?;
        if answer.body.is_empty() {
            return Ok(serde_json::Value::Null);
        }
        serde_json::from_slice(answer.body).context("the reply is not JSON")
    })
}
