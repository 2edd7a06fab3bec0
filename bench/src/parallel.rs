//! Eight calls of a tool that takes 50 ms, side by side.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hermes_mcp::{CallOptions, Era, host::BatchCall};
use rmcp::model::CallToolRequestParams;
use serde_json::{Map, Value, json};

use crate::{
    environment,
    environment::{Effort, Programs, RuntimeFlavour, light_server},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const CALLS: usize = 8;
const LIMIT: Duration = Duration::from_millis(60);

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    for flavour in RuntimeFlavour::ALL {
        let (ours, raw) = flavour.run(measure_parallel(programs.clone(), effort))?;
        let measure = format!("{CALLS} parallel calls of 50 ms, {}", flavour.as_str());
        let target = Target::Below(Quantity::Time(LIMIT));
        report.add(ReportRow::times(measure, &ours, &raw, target));
    }
    Ok(())
}

async fn measure_parallel(programs: Programs, effort: Effort) -> Result<(Samples, Samples)> {
    let mut entry = programs.stdio_entry(&light_server(Era::Legacy));
    entry["supports_parallel_tool_calls"] = json!(true);
    let home = environment::home_with_servers(&json!({"light": entry}));
    let host = programs.host(home.path()).await?;
    let registry = host.registry();
    let raw = programs
        .raw_stdio(Era::Legacy, &Programs::echo_arguments(Era::Legacy)?)
        .await?;

    let (mut ours, mut baseline) = (Samples::default(), Samples::default());
    for _ in 0..effort.times(50) {
        let calls = (0..CALLS)
            .map(|_| BatchCall {
                name: "mcp_light_sleep".into(),
                arguments: Ok(arguments()),
            })
            .collect();
        let began = Instant::now();
        let outcomes = host
            .call_all(&registry, calls, &CallOptions::default())
            .await;
        ours.push(began.elapsed());
        ensure!(
            outcomes.iter().all(|outcome| !outcome.is_error()),
            "{outcomes:?}"
        );

        let calls = (0..CALLS).map(|_| {
            let params = CallToolRequestParams::new("sleep").with_arguments(arguments());
            raw.call_tool(params)
        });
        let began = Instant::now();
        futures::future::try_join_all(calls).await?;
        baseline.push(began.elapsed());
    }
    host.shutdown().await;
    raw.cancel().await?;
    Ok((ours, baseline))
}

fn arguments() -> Map<String, Value> {
    Map::from_iter([("ms".to_owned(), json!(50))])
}
