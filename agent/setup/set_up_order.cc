#include "agent/setup/set_up_order.h"

#include <charconv>
#include <string_view>

#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOrderBytes = 4 << 20;
constexpr const char* kOrderFile = "order";
constexpr const char* kFailureFile = "failure";

// Fields end in NUL bytes, which no argument and no path can hold.
void Add(std::string& record, std::string_view field) { (record += field) += '\0'; }

std::string Take(std::string_view& record) { return std::string(TakeUpTo('\0', record)); }

int64_t TakeInteger(std::string_view& record) {
  const std::string field = Take(record);
  int64_t number = 0;
  std::from_chars(field.data(), field.data() + field.size(), number);
  return number;
}

std::string Read(const fs::path& path) {
  return ReadOwnFileIfExists(path, kMostOrderBytes).value_or("");
}

}  // namespace

fs::path SetUpRunFolder(const SlotFolder& folder) {
  return folder.TaskFolder(kSetUpTask) / RunFolderName(1, 1);
}

void WriteSetUpOrder(const fs::path& run_folder, const SetUpOrder& order) {
  std::string record;
  for (const auto* field :
       {&order.base, &order.key, &order.run, &order.job, &order.work, &order.shown}) {
    Add(record, *field);
  }
  Add(record, std::to_string(order.timeout_ms));
  Add(record, order.again ? "1" : "0");
  Add(record, std::to_string(order.argv.size()));
  for (const std::string& word : order.argv) Add(record, word);
  for (const std::string& input : order.inputs) Add(record, input);
  ReplaceFile(run_folder / kOrderFile, record, 0600);
}

SetUpOrder ReadSetUpOrder(const fs::path& run_folder) {
  const std::string text = Read(run_folder / kOrderFile);
  std::string_view record = text;
  SetUpOrder order;
  for (auto* field : {&order.base, &order.key, &order.run, &order.job, &order.work, &order.shown}) {
    *field = Take(record);
  }
  order.timeout_ms = TakeInteger(record);
  order.again = TakeInteger(record) != 0;
  for (int64_t words = TakeInteger(record); words > 0 && !record.empty(); --words) {
    order.argv.push_back(Take(record));
  }
  while (!record.empty()) order.inputs.push_back(Take(record));
  if (order.argv.empty()) throw Error(Phase::kSetUp, "its order cannot be read");
  return order;
}

void WriteSetUpFailure(const fs::path& run_folder, const Error& error) {
  std::string record;
  Add(record, error.cause());
  Add(record, error.remedy());
  ReplaceFile(run_folder / kFailureFile, record, 0600);
}

std::optional<Error> ReadSetUpFailure(const fs::path& run_folder) {
  const std::string text = Read(run_folder / kFailureFile);
  std::string_view record = text;
  if (record.empty()) return std::nullopt;
  const std::string cause = Take(record);
  return Error(Phase::kSetUp, cause, Take(record));
}

}  // namespace tfdist::agent
