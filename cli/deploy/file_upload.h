// Files on their way to one host: pieces go out one after the other, and no file waits for the
// answer to the one before.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "base/clock.h"
#include "cli/deploy/packed_file.h"
#include "cli/link/agent_link.h"

namespace tfdist::cli {

class FileUpload {
 public:
  // `check` is called all the time; what it throws ends the upload. `on_sent` gets what has gone
  // out since the last call: bytes of content, and of what was sent for them.
  FileUpload(AgentLink& link, std::function<void()> check,
             std::function<void(uint64_t content_bytes, uint64_t wire_bytes)> on_sent);

  // The host expects it. Throws the Refusal that the host has answered with by now, to this file or
  // an earlier one; LostConnection.
  void Send(const PackedFile& file);
  // For a caller that prepares the next file meanwhile: sends pings, and takes the answers that are
  // here. Nobody else may receive from the link: an answer would be lost. Throws as Send.
  void Poll();
  // Waits until the host has said that every file is there, and right. Throws as Send.
  void Finish(TimePoint deadline);

 private:
  void SendPiece(const PackedFile& file, uint64_t id, uint64_t offset, std::string bytes);
  // The answers that come until `deadline`, at most; at least those that are here.
  void TakeAnswers(TimePoint deadline);

  AgentLink& link_;
  std::function<void()> check_;
  std::function<void(uint64_t, uint64_t)> on_sent_;
  std::set<uint64_t> unanswered_;  // ids: one for each file
};

}  // namespace tfdist::cli
