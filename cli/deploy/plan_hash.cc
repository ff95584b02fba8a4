#include "cli/deploy/plan_hash.h"

#include "base/hash.h"
#include "cli/deploy/file_hashes.h"
#include "cli/deploy/workdir_list.h"
#include "cli/plan/describe.h"

namespace tfdist::cli {

std::string HashWithContent(const Plan& plan, const std::vector<std::unique_ptr<DataParts>>& data,
                            const WorkdirParts* workdir) {
  std::string hash = HashOf(plan);
  for (const auto& one : data) hash = Sha256Hex(hash + one->key());
  return workdir == nullptr ? hash : Sha256Hex(hash + workdir->Hash());
}

std::string HashWithContent(const Plan& plan) {
  const auto data = DataSentBy(plan);
  if (!plan.workdir) return HashWithContent(plan, data, nullptr);
  FileHashes hashes(*plan.workdir);
  const WorkdirParts workdir(*plan.workdir, ListWorkdir(plan), hashes);
  return HashWithContent(plan, data, &workdir);
}

}  // namespace tfdist::cli
