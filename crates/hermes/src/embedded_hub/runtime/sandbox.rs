//! The sandbox of a tenant's process: its home to write to, the system and a few paths to read.
//!
//! The rules and the filter of system calls are those of local MCP servers, and [`hermes_mcp::process::sandbox`] says what they
//! leave open.

#[cfg(target_os = "linux")]
pub(super) use self::linux::prepare_sandbox;

#[cfg(not(target_os = "linux"))]
pub(super) use self::elsewhere::prepare_sandbox;

#[cfg(target_os = "linux")]
mod linux {
    use hermes_mcp::process::sandbox::{
        LandlockRules, NetworkAccess, SandboxError, SyscallFilter, UnixSocketAccess,
    };

    use crate::embedded_hub::runtime::launcher::{LaunchPlan, TenantSandboxPlan};

    /// What is ready to be entered, as far as the plan has it.
    pub(in crate::embedded_hub::runtime) struct PreparedTenantSandbox {
        rules: Option<LandlockRules>,
        filter: Option<SyscallFilter>,
    }

    /// Opens what is to be reachable. This comes before the change of user, who could not see some of it.
    pub(in crate::embedded_hub::runtime) fn prepare_sandbox(
        plan: &LaunchPlan,
    ) -> Result<PreparedTenantSandbox, SandboxError> {
        let filter = plan
            .filters_calls
            .then(|| SyscallFilter::new(NetworkAccess::Allowed, UnixSocketAccess::Allowed));
        Ok(PreparedTenantSandbox {
            rules: rules(plan)?,
            filter: filter.transpose()?,
        })
    }

    fn rules(plan: &LaunchPlan) -> Result<Option<LandlockRules>, SandboxError> {
        let Some(TenantSandboxPlan { readable, sockets }) = &plan.sandbox else {
            return Ok(None);
        };
        let mut rules = LandlockRules::new(NetworkAccess::Allowed)?
            .allow_write(&plan.home)?
            .allow_read(&plan.program)?;
        for path in readable {
            rules = rules.allow_read(path)?;
        }
        for path in sockets {
            rules = rules.allow_connect(path)?;
        }
        Ok(Some(rules))
    }

    impl PreparedTenantSandbox {
        /// Puts all of it in force, for good.
        pub(in crate::embedded_hub::runtime) fn enter(self) -> Result<(), SandboxError> {
            self.rules.map_or(Ok(()), LandlockRules::enter)?;
            self.filter.map_or(Ok(()), SyscallFilter::enter)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use hermes_mcp::process::sandbox::SandboxError;

    use crate::embedded_hub::runtime::launcher::LaunchPlan;

    pub(in crate::embedded_hub::runtime) struct PreparedTenantSandbox;

    pub(in crate::embedded_hub::runtime) fn prepare_sandbox(
        _: &LaunchPlan,
    ) -> Result<PreparedTenantSandbox, SandboxError> {
        Ok(PreparedTenantSandbox)
    }

    impl PreparedTenantSandbox {
        pub(in crate::embedded_hub::runtime) fn enter(self) -> Result<(), SandboxError> {
            Ok(())
        }
    }
}
