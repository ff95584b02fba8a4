// A job of which each slot's agent is a shell script that says the same to whoever comes.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "cli/job/job_record.h"
#include "wire/frame.h"

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
      record.base_ids.emplace_back();
    }
    return record;
  }

  // Of one slot, whose agent says other words at each connection; each but the last lasts a second.
  [[nodiscard]] JobRecord MakeInTurn(
      const std::vector<std::vector<protocol::Message>>& connections) const {
    JobRecord record = Make(1, {});
    SayInTurn(record, 0, connections);
    return record;
  }

  // The agent of `slot` does so from now on.
  void SayInTurn(const JobRecord& record, size_t slot,
                 const std::vector<std::vector<protocol::Message>>& connections) const {
    const std::string agent = "jobs/" + record.id + "/h" + std::to_string(slot) + "/agent";
    for (size_t i = 0; i < connections.size(); ++i) {
      folder_.Write(agent + ".says." + std::to_string(i + 1),
                    Said(protocol::Serving::kAgent, connections[i]));
    }
    std::filesystem::remove(folder_.path() / agent);
    folder_.Write(agent,
                  "#!/bin/sh\nprintf x >>\"$0.starts\"; n=$(wc -c <\"$0.starts\")\n"
                  "cat \"$0.says.$n\"; limit=; [ -e \"$0.says.$((n + 1))\" ] && limit='timeout 1'\n"
                  "$limit cat >\"$0.hears.$n\"; mv \"$0.hears.$n\" \"$0.heard.$n\"\n");
    chmod((folder_.path() / agent).c_str(), 0500);
  }

  // The n-th connection of such a job breaks after a second, before it has said hello.
  void BreakBeforeHello(const JobRecord& record, int connection) const {
    folder_.Write("jobs/" + record.id + "/h0/agent.says." + std::to_string(connection), "");
  }

  // What the n-th connection (1, 2, ...) of such a job was asked; waits for its end.
  [[nodiscard]] std::vector<protocol::Message> Heard(const JobRecord& record,
                                                     int connection) const {
    const auto path =
        folder_.path() / "jobs" / record.id / "h0" / ("agent.heard." + std::to_string(connection));
    const TimePoint give_up = SystemClock().Now() + std::chrono::seconds(20);
    while (!std::filesystem::exists(path) && SystemClock().Now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    protocol::FrameReader reader;
    reader.Feed(ReadFileIfExists(path, size_t{1} << 20).value_or(""));
    std::vector<protocol::Message> messages;
    while (auto message = reader.Next()) messages.push_back(*std::move(message));
    return messages;
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
    std::string said;
    for (const protocol::Message& word : words) said += protocol::Frame(word);
    folder_.Write(folder + "/agent.words", said);
    folder_.Write(folder + "/agent.says", Said(protocol::Serving::kFolder, words));
  }

  static std::string Said(protocol::Serving serving, const std::vector<protocol::Message>& words) {
    protocol::Hello hello;
    hello.serving = serving;
    std::string said = protocol::Frame({std::string(protocol::type::kHello), 0, hello});
    for (const protocol::Message& word : words) said += protocol::Frame(word);
    return said;
  }

  const TemporaryFolder folder_;
};

}  // namespace tfdist::cli
