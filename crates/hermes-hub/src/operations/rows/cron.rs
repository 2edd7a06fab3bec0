//! Cron jobs of tenants.

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Patch, Post},
    Operation,
};
use crate::{api_types::Scope, service::cron};

pub(super) fn others() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_upcoming_crons",
            &[Get],
            "/v1/agent-cron",
            cron::upcoming::list,
        )
        .docs(
            "List the next cron jobs",
            "Lists the cron jobs of all tenants that you may see and that have a next time, the next first; with `all`, paused \
             and finished ones too.",
        )
        .extended_tool()
        .scope(Scope::CronRead)
        .read_only()
        .command("hub jobs")
        .returns::<cron::upcoming::UpcomingJobs>(),
    ]
}

pub(super) fn tools() -> Vec<Operation> {
    vec![
        Operation::new("list_tenant_crons", &[Get], "/v1/tenants/{tenant_id}/agent-cron", cron::list)
            .docs("List cron jobs", "Lists the cron jobs of a tenant's agent, paused ones too.")
            .scope(Scope::CronRead)
            .read_only()
            .tool()
            .untrusted()
            .command("tenant cron list")
            .errors(&[501])
            .returns::<cron::JobList>(),
        Operation::new("get_tenant_cron", &[Get], "/v1/tenants/{tenant_id}/agent-cron/{job_id}", cron::get)
            .docs("Get a cron job", "Shows one cron job and its last ten executions.")
            .scope(Scope::CronRead)
            .read_only()
            .versioned()
            .tool()
            .untrusted()
            .command("tenant cron get")
            .returns::<cron::JobDetails>(),
        Operation::new("create_tenant_cron", &[Post], "/v1/tenants/{tenant_id}/agent-cron", cron::create)
            .docs(
                "Create a cron job",
                "Creates a cron job for a tenant's agent: `schedule` is `every 30m`, `30m` (once), `weekdays at 9am`, five cron fields or \
                 an ISO time; `prompt` is the task of the agent.",
            )
            .scope(Scope::CronWrite)
            .tool()
            .whole_body("job")
            .command("tenant cron create")
            .success(&[201])
            .errors(&[409, 422])
            .returns::<cron::JobReply>(),
        Operation::new("update_tenant_cron", &[Patch], "/v1/tenants/{tenant_id}/agent-cron/{job_id}", cron::update)
            .docs("Update a cron job", "Changes members of a cron job. `enabled: false` pauses it, `true` resumes it from now.")
            .scope(Scope::CronWrite)
            .idempotent()
            .tool()
            .whole_body("patch")
            .command("tenant cron update")
            .errors(&[412, 422])
            .returns::<cron::JobReply>(),
        Operation::new("delete_tenant_cron", &[Delete], "/v1/tenants/{tenant_id}/agent-cron/{job_id}", cron::delete)
            .docs("Delete a cron job", "Deletes one cron job and its output.")
            .scope(Scope::CronWrite)
            .destructive()
            .idempotent()
            .tool()
            .command("tenant cron delete")
            .returns_nothing(),
        Operation::new("pause_tenant_cron", &[Post], "/v1/tenants/{tenant_id}/agent-cron/{job_id}/pause", cron::pause)
            .docs("Pause a cron job", "Pauses one cron job until it is resumed.")
            .scope(Scope::CronWrite)
            .idempotent()
            .tool()
            .command("tenant cron pause")
            .returns::<cron::JobReply>(),
        Operation::new("resume_tenant_cron", &[Post], "/v1/tenants/{tenant_id}/agent-cron/{job_id}/resume", cron::resume)
            .docs("Resume a cron job", "Resumes a paused cron job; its next run is counted from now.")
            .scope(Scope::CronWrite)
            .idempotent()
            .tool()
            .command("tenant cron resume")
            .returns::<cron::JobReply>(),
        Operation::new("run_tenant_cron", &[Post], "/v1/tenants/{tenant_id}/agent-cron/{job_id}/run", cron::run)
            .docs("Run a cron job now", "Runs one cron job now, outside its schedule. The reply has the run's id and does not wait for its end.")
            .scope(Scope::CronRun)
            .gate(Gate::ActiveTenant)
            .open_world()
            .tool()
            .command("tenant cron run")
            .success(&[202])
            .errors(&[409, 507])
            .returns::<cron::JobStarted>(),
    ]
}
