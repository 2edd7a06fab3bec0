//! Variables that tenants may not have: those that the Hub sets, and those that decide what code programs load or run.
//! A token that may set a model's API key must not be able to load a library into every process.

use hermes_protocol::matches_pattern;

const HUB_VARIABLES: [&str; 4] = ["PATH", "HOME", "TMPDIR", "HERMES_*"];

/// Variables that decide which code is loaded or run, by the program that reads them. A trailing `*` is a wildcard.
const CODE_LOADING_VARIABLES: &[(&str, &[&str])] = &[
    (
        "the system's loader and libraries",
        &[
            "LD_*",
            "DYLD_*",
            "GCONV_PATH",
            "GETCONF_DIR",
            "GLIBC_TUNABLES",
            "LOCPATH",
            "NLSPATH",
            "OPENSSL_CONF",
            "OPENSSL_ENGINES",
            "OPENSSL_MODULES",
            "GIO_EXTRA_MODULES",
            "GIO_MODULE_DIR",
            "GTK_MODULES",
            "GTK_PATH",
            "GST_PLUGIN_*",
            "QT_PLUGIN_PATH",
            "QT_QPA_PLATFORM_PLUGIN_PATH",
            "SASL_PATH",
        ],
    ),
    (
        "shells",
        &[
            "BASH_*",
            "BASHOPTS",
            "ENV",
            "FPATH",
            "IFS",
            "PROMPT_COMMAND",
            "PS4",
            "SHELL",
            "SHELLOPTS",
            "ZDOTDIR",
        ],
    ),
    (
        "Python",
        &["PYTHON*", "PIP_CONFIG_FILE", "UV_CONFIG_FILE", "UV_PYTHON"],
    ),
    (
        "Node.js",
        &[
            "BUN_OPTIONS",
            "ELECTRON_RUN_AS_NODE",
            "NODE_OPTIONS",
            "NODE_PATH",
            "NODE_REPL_EXTERNAL_MODULE",
            "NPM_CONFIG_GIT",
            "NPM_CONFIG_GLOBALCONFIG",
            "NPM_CONFIG_NODE_OPTIONS",
            "NPM_CONFIG_PREFIX",
            "NPM_CONFIG_SCRIPT_SHELL",
            "NPM_CONFIG_SHELL",
            "NPM_CONFIG_USERCONFIG",
        ],
    ),
    ("Perl", &["PERL5*", "PERLLIB", "PERL_MM_OPT", "PERL_MB_OPT"]),
    (
        "Ruby",
        &[
            "BUNDLE_GEMFILE",
            "BUNDLE_PATH",
            "GEM_HOME",
            "GEM_PATH",
            "RUBYLIB",
            "RUBYOPT",
            "RUBYSHELL",
        ],
    ),
    (
        "Java",
        &[
            "CLASSPATH",
            "GRADLE_OPTS",
            "JAVA_OPTS",
            "JAVA_TOOL_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "MAVEN_OPTS",
            "SBT_OPTS",
            "_JAVA_OPTIONS",
        ],
    ),
    (
        ".NET",
        &[
            "CORECLR_*",
            "COR_ENABLE_PROFILING",
            "COR_PROFILER*",
            "DOTNET_ADDITIONAL_DEPS",
            "DOTNET_ROOT*",
            "DOTNET_SHARED_STORE",
            "DOTNET_STARTUP_HOOKS",
        ],
    ),
    (
        "other languages",
        &[
            "CARGO_BUILD_RUSTC*",
            "EMACSLOADPATH",
            "ERL_AFLAGS",
            "ERL_FLAGS",
            "ERL_LIBS",
            "ERL_ZFLAGS",
            "GOFLAGS",
            "GOTOOLDIR",
            "GUILE_LOAD_PATH",
            "JULIA_DEPOT_PATH",
            "JULIA_LOAD_PATH",
            "LUA_CPATH*",
            "LUA_INIT*",
            "LUA_PATH*",
            "PHPRC",
            "PHP_INI_SCAN_DIR",
            "R_ENVIRON*",
            "R_HOME",
            "R_LIBS*",
            "R_PROFILE*",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "TCLLIBPATH",
            "TCL_LIBRARY",
        ],
    ),
    (
        "git",
        &[
            "GIT_ALLOW_PROTOCOL",
            "GIT_ASKPASS",
            "GIT_COMMON_DIR",
            "GIT_CONFIG*",
            "GIT_DIR",
            "GIT_EDITOR",
            "GIT_EXEC_PATH",
            "GIT_EXTERNAL_DIFF",
            "GIT_PAGER",
            "GIT_PROXY_COMMAND",
            "GIT_SEQUENCE_EDITOR",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_TEMPLATE_DIR",
        ],
    ),
    (
        "programs that run others",
        &[
            "EXINIT",
            "HGRCPATH",
            "LESSCLOSE",
            "LESSOPEN",
            "MAKEFILES",
            "MAKEFLAGS",
            "RIPGREP_CONFIG_PATH",
            "RSYNC_CONNECT_PROG",
            "RSYNC_RSH",
            "SSH_ASKPASS",
            "SUDO_ASKPASS",
            "SVN_SSH",
            "TAR_OPTIONS",
            "VIMINIT",
            "WGETRC",
        ],
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReservedVariable {
    SetByHub,
    /// It decides what code these programs load or run.
    LoadsCode(&'static str),
}

pub(crate) fn classify_variable(name: &str) -> Option<ReservedVariable> {
    if HUB_VARIABLES
        .iter()
        .any(|pattern| matches_pattern(pattern, name))
    {
        return Some(ReservedVariable::SetByHub);
    }
    let program = CODE_LOADING_VARIABLES.iter().find(|(_, patterns)| {
        patterns
            .iter()
            .any(|pattern| matches_pattern(pattern, name))
    });
    program.map(|(who, _)| ReservedVariable::LoadsCode(who))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_which_code_runs_is_reserved() {
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "GCONV_PATH",
            "PERL5OPT",
            "PERL5LIB",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "ENV",
            "IFS",
            "BASH_ENV",
            "SHELLOPTS",
            "PROMPT_COMMAND",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "NPM_CONFIG_SCRIPT_SHELL",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "DOTNET_STARTUP_HOOKS",
            "LESSOPEN",
            "OPENSSL_CONF",
            "UV_PYTHON",
        ] {
            let reserved = classify_variable(name);
            assert!(
                matches!(reserved, Some(ReservedVariable::LoadsCode(_))),
                "{name}"
            );
        }
        for name in ["PATH", "HOME", "TMPDIR", "HERMES_HOME"] {
            assert_eq!(
                classify_variable(name),
                Some(ReservedVariable::SetByHub),
                "{name}"
            );
        }
    }

    #[test]
    fn what_tenants_need_is_not() {
        for name in [
            "OPENAI_API_KEY",
            "ANTHROPIC_BASE_URL",
            "HTTPS_PROXY",
            "NO_PROXY",
            "GIT_AUTHOR_NAME",
            "GIT_COMMITTER_EMAIL",
            "GITHUB_TOKEN",
            "NPM_TOKEN",
            "NPM_CONFIG_REGISTRY",
            "PIP_INDEX_URL",
            "UV_INDEX_URL",
            "NODE_ENV",
            "NODE_EXTRA_CA_CERTS",
            "SSL_CERT_FILE",
            "JAVA_HOME",
            "ENVIRONMENT",
            "ENV_NAME",
            "DATABASE_URL",
            "R_TOKEN",
            "LDAP_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "TZ",
            "LANG",
            "EDITOR",
            "DEBUG",
        ] {
            assert_eq!(classify_variable(name), None, "{name}");
        }
    }
}
