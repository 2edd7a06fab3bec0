//! Calls one after the other: 1 KB and 10 MB, over stdio and HTTP, in both eras and on both runtimes.

use anyhow::{Context, Result};
use hermes_mcp::era::Era;
use serde_json::json;

use crate::{
    client::{self, Client},
    echo_http,
    floor::{AsyncLines, Lines, Posts},
    own_server::OwnServer,
    report::{Ladder, Report, Row, Step, Target},
    samples::Samples,
    scene::{self, ERAS, Effort, Flavour, Programs, light_server},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    OneKilobyte,
    TenMegabytes,
}

/// One kind of call.
#[derive(Debug, Clone, Copy)]
struct Kind {
    transport: Transport,
    size: Size,
    era: Era,
    flavour: Flavour,
}

/// Turns, and calls in each turn.
struct Plan {
    rounds: usize,
    calls: usize,
}

/// A client in a comparison.
struct Contender {
    name: &'static str,
    adds: Option<&'static str>,
    client: Client,
}

const RAW: &str = "raw rmcp";

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    for transport in [Transport::Stdio, Transport::Http] {
        for size in [Size::OneKilobyte, Size::TenMegabytes] {
            for era in ERAS {
                for flavour in Flavour::ALL {
                    let kind = Kind {
                        transport,
                        size,
                        era,
                        flavour,
                    };
                    let steps = flavour.run(run(kind, programs.clone(), effort))?;
                    kind.report(steps, report)?;
                }
            }
        }
    }
    Ok(())
}

impl Kind {
    /// Every way to make the call is compared for one kind in four; the others need their baseline only.
    fn is_full(self) -> bool {
        self.era == Era::Legacy && self.flavour == Flavour::OneThread
    }

    fn name(self) -> String {
        let size = match self.size {
            Size::OneKilobyte => "1 KB",
            Size::TenMegabytes => "10 MB",
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
            Size::OneKilobyte => 1_000,
            Size::TenMegabytes => 10_000_000,
        })
    }

    fn target(self) -> Target {
        Target::Ratio(match self.size {
            Size::OneKilobyte => 1.3,
            Size::TenMegabytes => 1.2,
        })
    }

    fn plan(self, effort: Effort) -> Plan {
        let (rounds, calls) = match (self.size, self.transport) {
            (Size::OneKilobyte, Transport::Stdio) => (100, 100),
            (Size::OneKilobyte, Transport::Http) => (100, 30),
            (Size::TenMegabytes, _) => (60, 1),
        };
        Plan {
            rounds: effort.times(rounds),
            calls,
        }
    }

    fn report(self, steps: Vec<(Step, bool)>, report: &mut Report) -> Result<()> {
        let find = |wanted: &dyn Fn(&(Step, bool)) -> bool| {
            steps
                .iter()
                .find(|step| wanted(step))
                .map(|(step, _)| &step.samples)
                .context("a contender is missing")
        };
        let raw = find(&|(step, _)| step.name == RAW)?;
        let ours = find(&|(_, is_host)| *is_host)?;
        report.add(Row::times(self.name(), ours, raw, self.target()));
        if self.is_full() {
            report.add_ladder(Ladder {
                title: self.name(),
                steps: steps.into_iter().map(|(step, _)| step).collect(),
            });
        }
        Ok(())
    }
}

/// Lets the contenders take turns. The flag says which one is the host.
async fn run(kind: Kind, programs: Programs, effort: Effort) -> Result<Vec<(Step, bool)>> {
    let http = OwnServer::start(&programs, echo_http::MODE)?;
    let protocol = kind.era.as_str();
    let mut entry = match kind.transport {
        Transport::Stdio => programs.stdio_entry(&light_server(kind.era)),
        Transport::Http => json!({"url": http.url()}),
    };
    entry["protocol"] = json!(protocol);
    let home = scene::home(&json!({"light": entry}));
    let host = programs.host(home.path()).await?;
    let tool = "mcp_light_echo".to_owned();

    let mut contenders = match kind.transport {
        Transport::Stdio => stdio(kind, &programs).await?,
        Transport::Http => over_http(kind, &http).await?,
    };
    contenders.push(Contender {
        name: "Host::call",
        adds: Some("registry, arguments, breaker, clock, progress, outcome"),
        client: Client::Host {
            host: host.clone(),
            tool: tool.clone(),
        },
    });
    if kind.is_full() {
        contenders.push(Contender {
            name: "Host::call and to_json",
            adds: Some("the line for the model"),
            client: Client::HostJson {
                host: host.clone(),
                tool,
            },
        });
    }
    let steps = take_turns(contenders, &kind.text(), &kind.plan(effort)).await?;
    host.shutdown().await;
    Ok(steps)
}

async fn stdio(kind: Kind, programs: &Programs) -> Result<Vec<Contender>> {
    let arguments = Programs::echo_arguments(kind.era)?;
    let raw = Contender {
        name: RAW,
        adds: None,
        client: Client::Rmcp(programs.raw_stdio(kind.era, &arguments).await?),
    };
    if !kind.is_full() {
        return Ok(vec![raw]);
    }
    Ok(vec![
        Contender {
            name: "bare pipe, blocking",
            adds: Some("two pipes and two switches of process"),
            client: Client::Pipe(programs.pipe_lines()?),
        },
        Contender {
            name: "written by hand, blocking",
            adds: None,
            client: Client::Written(Lines::start(&programs.server, &arguments)?),
        },
        raw,
        Contender {
            name: "bare pipe on tokio",
            adds: Some("epoll, reads that find nothing, the scheduler"),
            client: Client::AsyncPipe(programs.async_pipe_lines()?),
        },
        Contender {
            name: "written by hand on tokio",
            adds: Some("JSON-RPC in client and server"),
            client: Client::AsyncWritten(AsyncLines::start(&programs.server, &arguments)?),
        },
        Contender {
            name: "rmcp over the host's transport",
            adds: Some("rmcp: its task, its channels, its typed messages"),
            client: Client::Rmcp(programs.raw_over_lines(kind.era).await?),
        },
    ])
}

async fn over_http(kind: Kind, http: &OwnServer) -> Result<Vec<Contender>> {
    let raw = Contender {
        name: RAW,
        adds: Some("tokio, reqwest and hyper, rmcp"),
        client: Client::Rmcp(client::raw_http(kind.era, http.url()).await?),
    };
    if !kind.is_full() {
        return Ok(vec![raw]);
    }
    Ok(vec![
        Contender {
            name: "written by hand, blocking",
            adds: Some("a socket, two switches of process, JSON"),
            client: Client::WrittenHttp(Posts::connect(http.port)?),
        },
        raw,
    ])
}

async fn take_turns(
    mut contenders: Vec<Contender>,
    text: &str,
    plan: &Plan,
) -> Result<Vec<(Step, bool)>> {
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
        let step = Step {
            name: contender.name,
            adds: contender.adds,
            samples,
        };
        (step, contender.client.is_host())
    });
    Ok(steps.collect())
}
