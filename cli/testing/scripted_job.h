// A job of which each slot's agent is a shell script that says the same to whoever comes.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/frame.h"
#include "base/testing/temporary_folder.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

class ScriptedJob {
 public:
  // Each agent says hello as one that serves a folder, and `words`. Then it takes in what comes, or
  // hangs up after the first request, and may remove the job's folder before, or says the words
  // again and again.
  enum class Then { kStays, kHangsUp, kHangsUpAndGoes, kRepeats };
  [[nodiscard]] JobRecord Make(size_t slots, const std::vector<protocol::Message>& words,
                               Then then = Then::kStays) const {
    JobRecord record;
    record.id = "digits-20260801T120000Z-a1b2c3";
    for (size_t slot = 0; slot < slots; ++slot) {
      AddAgent("jobs/" + record.id + "/h" + std::to_string(slot), words, then);
      HostPlan host;
      host.name = "host" + std::to_string(slot);
      host.local = true;
      record.hosts.push_back(host);
      record.bases.push_back(folder_.path().string());
    }
    return record;
  }

  // How often the agent of `slot` was attached to.
  [[nodiscard]] size_t TimesAttached(const JobRecord& record, size_t slot) const {
    const auto starts =
        folder_.path() / "jobs" / record.id / ("h" + std::to_string(slot)) / "agent.starts";
    return std::filesystem::exists(starts) ? std::filesystem::file_size(starts) : 0;
  }

  // Of no slot anything is left.
  void RemoveAll() const { std::filesystem::remove_all(folder_.path() / "jobs"); }

 private:
  void AddAgent(const std::string& folder, const std::vector<protocol::Message>& words,
                Then then) const {
    std::filesystem::create_directories(folder_.path() / folder);
    // The whole request is read: a socket that is closed over unread bytes takes back what it sent.
    std::string rest = then == Then::kStays ? "cat >&2" : "dd bs=64K count=1 >&2";
    if (then == Then::kRepeats) rest = "while cat \"$0.words\"; do :; done";
    if (then == Then::kHangsUpAndGoes) rest += "; rm -r \"${0%/*}\"";
    const auto agent = folder_.Write(
        folder + "/agent", "#!/bin/sh\nprintf x >>\"$0.starts\"; cat \"$0.says\"; " + rest + "\n");
    chmod(agent.c_str(), 0500);
    protocol::Hello hello;
    hello.serving = "folder";
    std::string said;
    for (const protocol::Message& word : words) said += protocol::Frames(word);
    folder_.Write(folder + "/agent.words", said);
    folder_.Write(folder + "/agent.says",
                  protocol::Frames({std::string(protocol::type::kHello), 0, hello}) + said);
  }

  const TemporaryFolder folder_;
};

}  // namespace tfdist::cli
