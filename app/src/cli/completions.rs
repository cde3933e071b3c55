//! `setpoint completions`: scripts that let a shell complete the command line.
//!
//! Commands and options are in the scripts; kinds, names, namespaces and contexts are asked of the
//! cluster while somebody types (`candidates.rs`), in the shells that most people use.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};
use clap_complete_nushell::Nushell;

use super::{Context, definition};

const AFTER_HELP: &str = "\
Examples:
  source <(setpoint completions bash)
  setpoint completions zsh > ~/.zfunc/_setpoint
  setpoint completions fish > ~/.config/fish/completions/setpoint.fish
  setpoint completions nushell | save -f ~/.config/nushell/autoload/setpoint.nu

In bash, zsh and fish, kinds, names, namespaces and contexts of the cluster are completed too.";

/// What the scripts add to the words they know: those that the cluster knows.
const LIVE_BASH: &str = r#"
_setpoint_live() {
    _setpoint "$@"
    local current="${COMP_WORDS[COMP_CWORD]}" word
    while IFS= read -r word; do
        [ -n "$word" ] && COMPREPLY+=("$word")
    done < <(setpoint candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _setpoint_live -o nosort -o bashdefault -o default setpoint
"#;
const LIVE_ZSH: &str = r#"
_setpoint_live() {
    local -a words_found
    words_found=("${(@f)$(setpoint candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    words_found=("${(@)words_found:#}")
    (( ${#words_found} )) && compadd -- "${words_found[@]}"
    _setpoint "$@"
}
compdef _setpoint_live setpoint
"#;
const LIVE_FISH: &str = r#"
function __setpoint_candidates
    set -l words (commandline -opc) (commandline -ct)
    setpoint candidates -- $words[2..-1] 2>/dev/null
end
complete -c setpoint -f -a '(__setpoint_candidates)'
"#;

/// Print a script that completes commands and options in a shell.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Completions {
    /// The shell the script is for.
    shell: For,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum For {
    Bash,
    Elvish,
    Fish,
    Nushell,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
}

impl For {
    /// The script, into memory first: the generators panic when their output is closed.
    fn script(self) -> Vec<u8> {
        let mut script = Vec::new();
        let shell = match self {
            For::Bash => Shell::Bash,
            For::Elvish => Shell::Elvish,
            For::Fish => Shell::Fish,
            For::PowerShell => Shell::PowerShell,
            For::Zsh => Shell::Zsh,
            For::Nushell => {
                generate(Nushell, &mut definition(), "setpoint", &mut script);
                return script;
            }
        };
        generate(shell, &mut definition(), "setpoint", &mut script);
        script
    }
}

impl Completions {
    pub fn run(&self, _: &Context) -> Result<ExitCode> {
        let mut script = self.shell.script();
        let live = match self.shell {
            For::Bash => LIVE_BASH,
            For::Zsh => LIVE_ZSH,
            For::Fish => LIVE_FISH,
            _ => "",
        };
        script.extend_from_slice(live.as_bytes());
        std::io::stdout().lock().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
