// Placeholders in arguments and values of variables: {task_index}, {ps_hosts}, {worker:0.host}.
// configs/README.md lists them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster_file/problems.h"
#include "cli/plan/plan.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// The words of its placeholders, in order, as Expand finds them.
std::vector<std::string_view> PlaceholdersIn(std::string_view text);

// Borrows the plan, whose hosts, common texts and tasks (id, slot, port, rank) must be there.
class Placeholders {
 public:
  // `complete`: false when tasks are missing by mistake, so that a name that finds none is no news.
  Placeholders(const Plan& plan, bool complete, Problems& problems);

  // The text for one task. Addresses stay open (protocol::SlotAddress), paths of the host are
  // protocol's markers. `{{` is a brace; a brace that begins no {word} is itself,
  // and so is "${word}". "~/" at its beginning is the account's home on the host.
  protocol::Text Expand(const Located<std::string>& text, const TaskOnHost& task);

 private:
  using Parts = std::vector<protocol::Text::Part>;
  struct Use;  // one placeholder in one text

  void Resolve(const Use& use, Parts& parts) const;
  [[nodiscard]] bool ResolveOwn(const Use& use, Parts& parts) const;
  [[nodiscard]] bool ResolveRank(const Use& use, Parts& parts) const;
  [[nodiscard]] bool ResolvePath(const Use& use, Parts& parts) const;
  [[nodiscard]] bool ResolveData(const Use& use, Parts& parts) const;
  [[nodiscard]] bool ResolveHosts(const Use& use, Parts& parts) const;
  [[nodiscard]] bool ResolveVariable(const Use& use, Parts& parts) const;
  void ResolveOther(const Use& use, Parts& parts) const;
  void AppendPlace(const Use& use, const TaskOnHost& task, std::string_view what,
                   Parts& parts) const;
  void AppendNamedPort(const Use& use, const TaskOnHost& task, const std::string& name,
                       Parts& parts) const;
  void Report(const Use& use, const std::string& why, std::string hint = {}) const;
  [[nodiscard]] std::string HintFor(std::string_view word) const;
  // Whether the text still fits, by itself and with all others.
  bool Charge(const Located<std::string>& text, const protocol::Text& expanded);

  const Plan& plan_;
  bool complete_;
  Problems& problems_;
  std::map<TaskId, const TaskOnHost*> tasks_;
  int worker_count_ = 0;  // the chief included, as TensorFlow counts (run_config.py, _count_worker)
  size_t spent_bytes_ = 0;  // of memory, on all texts
};

}  // namespace tfdist::cli
