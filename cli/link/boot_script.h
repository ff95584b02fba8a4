// The scripts that /bin/sh runs on a host before an agent runs there. Their text is that of host.sh; values
// are set as quoted variables before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tfdist::cli {

// What a script prints after the line with the nonce, one line each, with the nonce and a space before it:
//   system OS MACHINE      no agent is for this system
//   lacks PROGRAMS         the host has no such programs, which bring an agent
//   refused FOLDER: WHY    tfdist's folder cannot be there; or it is, and somebody else may have made a part of it: it
//                          is passed over
//   upload FORM MACHINE    the agent for MACHINE is missing: send it to stdin, in the FORM xz, gzip or plain
//   run MACHINE PID ID     the agent starts, in the folder with this ID; all further bytes are its own. From the other scripts: `run` alone
//   base ID PATH           a folder of tfdist's that is there
//   lacks ID PATH          the same, without the slot that is asked for
//   gone PATH              one that was removed, and is not just out of sight
//   found | nothing        all of them have been told; nothing: there is none, and the script ends
//   missing                no such job here; base, lacks and gone come before it
//   lost PIDS              the same, and such processes of it run
//   agent PATH             of a job's slot
//   failed TEXT
//   done                   the last line
// RunCommand says `run` or `missing`; all that follows `run` is what the command prints, up to
//   \1NONCE exit STATUS LEFT   LEFT: ids of processes that could not be ended
class BootScript {
 public:
  // `nonce` marks where the script's own output begins. Throws Error(kInternal) when it is not
  // hexadecimal.
  explicit BootScript(std::string nonce);

  // Sets a variable for the script; `value` may be any text without NUL: it is quoted.
  BootScript& Set(std::string_view name, std::string_view value);
  // The user's program and its arguments, for RunCommand; quoted as values are. `expands_home`: "~/x" among them is in the home
  // folder of the host (base/home_word.h).
  BootScript& SetWords(const std::vector<std::string>& words, bool expands_home = false);
  [[nodiscard]] const std::string& nonce() const { return nonce_; }

  // The whole text, ready to be sent, as a word that is run only where all of it has come and the shell is one for it; else it
  // says "NONCE unread FIELDS PROGRAM": 1 field where the shell does not split words. The shell has read all of it when it says
  // its nonce.
  // nonce remote_dir anew; kinds: a line for each agent, MACHINE HASH SIZE_BYTES GZIP_BYTES XZ_BYTES (0: none)
  [[nodiscard]] std::string StartAgent() const;
  // As StartAgent, for the role `house`: places: each_base or each_known_base (remote_dir itself may be the folder); job slot: or empty,
  // where only the folder with that slot counts; aside: not empty: the agent goes into a folder for this request
  [[nodiscard]] std::string KeepHouse() const;
  // remote_dir job slot; ends: not empty: after `lost` the agent runs, too, as one of these processes does
  [[nodiscard]] std::string Attach() const;
  [[nodiscard]] std::string FindAgent() const;  // remote_dir job slot
  // words; mark limit_seconds (0: none); remote_dir job slot where a job's agent runs them as its role (job: else
  // empty), and task where they run as a task does (else empty). While it runs, `end` and `kill` can be sent to it, one a line.
  [[nodiscard]] std::string RunCommand() const;

 private:
  [[nodiscard]] std::string Sealed(std::string_view name) const;

  std::string nonce_;
  std::string values_;
  std::string words_;
};

}  // namespace tfdist::cli
