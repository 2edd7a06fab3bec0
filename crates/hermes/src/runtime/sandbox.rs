//! The sandbox of a tenant's process: its home to write to, the system and a few paths to read.
//!
//! The rules and the filter of system calls are those of local MCP servers, and [`hermes_mcp::sandbox`] says what they
//! leave open.

#[cfg(target_os = "linux")]
pub(super) use self::linux::prepare;

#[cfg(not(target_os = "linux"))]
pub(super) use self::elsewhere::prepare;

#[cfg(target_os = "linux")]
mod linux {
    use hermes_mcp::sandbox::{Filter, Network, Rules, SandboxError, UnixSockets};

    use crate::runtime::plan::{Plan, Sandbox};

    /// What is ready to be entered, as far as the plan has it.
    pub(in crate::runtime) struct Prepared {
        rules: Option<Rules>,
        filter: Option<Filter>,
    }

    /// Opens what is to be reachable. This comes before the change of user, who could not see some of it.
    pub(in crate::runtime) fn prepare(plan: &Plan) -> Result<Prepared, SandboxError> {
        let filter = plan
            .filters_calls
            .then(|| Filter::new(Network::Allowed, UnixSockets::Allowed));
        Ok(Prepared {
            rules: rules(plan)?,
            filter: filter.transpose()?,
        })
    }

    fn rules(plan: &Plan) -> Result<Option<Rules>, SandboxError> {
        let Some(Sandbox { readable, sockets }) = &plan.sandbox else {
            return Ok(None);
        };
        let mut rules = Rules::new(Network::Allowed)?
            .write(&plan.home)?
            .read(&plan.program)?;
        for path in readable {
            rules = rules.read(path)?;
        }
        for path in sockets {
            rules = rules.connect(path)?;
        }
        Ok(Some(rules))
    }

    impl Prepared {
        /// Puts all of it in force, for good.
        pub(in crate::runtime) fn enter(self) -> Result<(), SandboxError> {
            self.rules.map_or(Ok(()), Rules::enter)?;
            self.filter.map_or(Ok(()), Filter::enter)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use hermes_mcp::sandbox::SandboxError;

    use crate::runtime::plan::Plan;

    pub(in crate::runtime) struct Prepared;

    pub(in crate::runtime) fn prepare(_: &Plan) -> Result<Prepared, SandboxError> {
        Ok(Prepared)
    }

    impl Prepared {
        pub(in crate::runtime) fn enter(self) -> Result<(), SandboxError> {
            Ok(())
        }
    }
}
