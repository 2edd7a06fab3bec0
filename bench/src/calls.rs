//! Calls one after the other: 1 KB and 10 MB, over stdio and HTTP, in both eras and on both runtimes.

use anyhow::{Context, Result};
use hermes_mcp::Era;
use serde_json::json;

use crate::{
    baseline::{AsyncLinePipe, HttpPipe, LinePipe},
    client::{self, EchoClient},
    echo_http,
    environment::{self, ERAS, EchoServer, Effort, Programs, RuntimeFlavour, light_server},
    report::{BreakdownStep, CallBreakdown, Report, ReportRow, Target},
    samples::Samples,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PayloadSize {
    OneKilobyte,
    TenMegabytes,
}

/// One kind of call.
#[derive(Debug, Clone, Copy)]
struct CallKind {
    transport: Transport,
    size: PayloadSize,
    era: Era,
    flavour: RuntimeFlavour,
}

/// Turns, and calls in each turn.
struct RoundPlan {
    rounds: usize,
    calls: usize,
}

/// A client in a comparison.
struct ComparedClient {
    name: &'static str,
    adds: Option<&'static str>,
    client: EchoClient,
}

const RAW: &str = "raw rmcp";

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    for transport in [Transport::Stdio, Transport::Http] {
        for size in [PayloadSize::OneKilobyte, PayloadSize::TenMegabytes] {
            for era in ERAS {
                for flavour in RuntimeFlavour::ALL {
                    let kind = CallKind {
                        transport,
                        size,
                        era,
                        flavour,
                    };
                    let steps = flavour.run(measure_kind(kind, programs.clone(), effort))?;
                    kind.report(steps, report)?;
                }
            }
        }
    }
    Ok(())
}

impl CallKind {
    /// Every way to make the call is compared for one kind in four; the others need their baseline only.
    fn is_full(self) -> bool {
        self.era == Era::Legacy && self.flavour == RuntimeFlavour::OneThread
    }

    fn name(self) -> String {
        let size = match self.size {
            PayloadSize::OneKilobyte => "1 KB",
            PayloadSize::TenMegabytes => "10 MB",
        };
        let transport = match self.transport {
            Transport::Stdio => "stdio",
            Transport::Http => "HTTP",
        };
        let (era, flavour) = (self.era.as_str(), self.flavour.as_str());
        format!("call of {size} over {transport}, {era}, {flavour}")
    }

    fn text(self) -> String {
        "x".repeat(match self.size {
            PayloadSize::OneKilobyte => 1_000,
            PayloadSize::TenMegabytes => 10_000_000,
        })
    }

    fn target(self) -> Target {
        Target::Ratio(match self.size {
            PayloadSize::OneKilobyte => 1.3,
            PayloadSize::TenMegabytes => 1.2,
        })
    }

    fn plan(self, effort: Effort) -> RoundPlan {
        let (rounds, calls) = match (self.size, self.transport) {
            (PayloadSize::OneKilobyte, Transport::Stdio) => (100, 100),
            (PayloadSize::OneKilobyte, Transport::Http) => (100, 30),
            (PayloadSize::TenMegabytes, _) => (60, 1),
        };
        RoundPlan {
            rounds: effort.times(rounds),
            calls,
        }
    }

    fn report(self, steps: Vec<(BreakdownStep, bool)>, report: &mut Report) -> Result<()> {
        let find = |wanted: &dyn Fn(&(BreakdownStep, bool)) -> bool| {
            steps
                .iter()
                .find(|step| wanted(step))
                .map(|(step, _)| &step.samples)
                .context("a contender is missing")
        };
        let raw = find(&|(step, _)| step.name == RAW)?;
        let ours = find(&|(_, is_host)| *is_host)?;
        report.add(ReportRow::times(self.name(), ours, raw, self.target()));
        if self.is_full() {
            report.add_ladder(CallBreakdown {
                title: self.name(),
                steps: steps.into_iter().map(|(step, _)| step).collect(),
            });
        }
        Ok(())
    }
}

/// Lets the contenders take turns. The flag says which one is the host.
async fn measure_kind(
    kind: CallKind,
    programs: Programs,
    effort: Effort,
) -> Result<Vec<(BreakdownStep, bool)>> {
    let http = EchoServer::start(&programs, echo_http::MODE)?;
    let protocol = kind.era.as_str();
    let mut entry = match kind.transport {
        Transport::Stdio => programs.stdio_entry(&light_server(kind.era)),
        Transport::Http => json!({"url": http.url()}),
    };
    entry["protocol"] = json!(protocol);
    let home = environment::home_with_servers(&json!({"light": entry}));
    let host = programs.host(home.path()).await?;
    let tool = "mcp_light_echo".to_owned();

    let mut contenders = match kind.transport {
        Transport::Stdio => stdio_clients(kind, &programs).await?,
        Transport::Http => http_clients(kind, &http).await?,
    };
    contenders.push(ComparedClient {
        name: "Host::call",
        adds: Some("registry, arguments, breaker, clock, progress, outcome"),
        client: EchoClient::Host {
            host: host.clone(),
            tool: tool.clone(),
        },
    });
    if kind.is_full() {
        contenders.push(ComparedClient {
            name: "Host::call and to_json",
            adds: Some("the line for the model"),
            client: EchoClient::HostJson {
                host: host.clone(),
                tool,
            },
        });
    }
    let steps = run_interleaved(contenders, &kind.text(), &kind.plan(effort)).await?;
    host.shutdown().await;
    Ok(steps)
}

async fn stdio_clients(kind: CallKind, programs: &Programs) -> Result<Vec<ComparedClient>> {
    let arguments = Programs::echo_arguments(kind.era)?;
    let raw = ComparedClient {
        name: RAW,
        adds: None,
        client: EchoClient::Rmcp(programs.raw_stdio(kind.era, &arguments).await?),
    };
    if !kind.is_full() {
        return Ok(vec![raw]);
    }
    Ok(vec![
        ComparedClient {
            name: "bare pipe, blocking",
            adds: Some("two pipes and two switches of process"),
            client: EchoClient::Pipe(programs.pipe_lines()?),
        },
        ComparedClient {
            name: "written by hand, blocking",
            adds: None,
            client: EchoClient::Written(LinePipe::start(&programs.server, &arguments)?),
        },
        raw,
        ComparedClient {
            name: "bare pipe on tokio",
            adds: Some("epoll, reads that find nothing, the scheduler"),
            client: EchoClient::AsyncPipe(programs.async_pipe_lines()?),
        },
        ComparedClient {
            name: "written by hand on tokio",
            adds: Some("JSON-RPC in client and server"),
            client: EchoClient::AsyncWritten(AsyncLinePipe::start(&programs.server, &arguments)?),
        },
        ComparedClient {
            name: "rmcp over the host's transport",
            adds: Some("rmcp: its task, its channels, its typed messages"),
            client: EchoClient::Rmcp(programs.raw_over_lines(kind.era).await?),
        },
    ])
}

async fn http_clients(kind: CallKind, http: &EchoServer) -> Result<Vec<ComparedClient>> {
    let raw = ComparedClient {
        name: RAW,
        adds: Some("tokio, reqwest and hyper, rmcp"),
        client: EchoClient::Rmcp(client::raw_http(kind.era, http.url()).await?),
    };
    if !kind.is_full() {
        return Ok(vec![raw]);
    }
    Ok(vec![
        ComparedClient {
            name: "written by hand, blocking",
            adds: Some("a socket, two switches of process, JSON"),
            client: EchoClient::WrittenHttp(HttpPipe::connect(http.port)?),
        },
        raw,
    ])
}

async fn run_interleaved(
    mut contenders: Vec<ComparedClient>,
    text: &str,
    plan: &RoundPlan,
) -> Result<Vec<(BreakdownStep, bool)>> {
    let mut samples = vec![Samples::default(); contenders.len()];
    // The first round warms up.
    for round in 0..=plan.rounds {
        for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
            for _ in 0..plan.calls {
                let time = contender
                    .client
                    .echo(text)
                    .await
                    .with_context(|| contender.name)?;
                if round > 0 {
                    samples.push(time);
                }
            }
        }
    }
    let steps = contenders.iter().zip(samples).map(|(contender, samples)| {
        let step = BreakdownStep {
            name: contender.name,
            adds: contender.adds,
            samples,
        };
        (step, contender.client.is_host())
    });
    Ok(steps.collect())
}
