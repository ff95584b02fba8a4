#include "agent/data/data_paths.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "agent/data/data_folder.h"
#include "agent/slot/kept_folder.h"
#include "agent/tasks/environment.h"
#include "agent/tasks/fill_path.h"
#include "agent/tasks/work_files.h"
#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

using protocol::DataDescription;
using protocol::DataFact;
using protocol::TaskDescription;

// Throws where the host does not set a variable of it, or where it is not there.
std::string PathOf(const DataDescription& data) {
  const auto variable = [&](const std::string& name) {
    const auto value = Environment::OfHost().Get(name);
    if (value) return *value;
    throw Error(
        Phase::kFiles,
        fmt::format("the path of data {} uses the variable {}, which this host does not set",
                    data.name, name),
        "set it where a login without a terminal reads it, or write the path");
  };
  std::string path = protocol::Fill(data.path, {{}, protocol::CommonTexts(), variable});
  struct stat info {};
  const bool is_there = stat(path.c_str(), &info) == 0;
  const int needed = R_OK | (S_ISDIR(info.st_mode) ? X_OK : 0);
  if (is_there && access(path.c_str(), needed) == 0) return path;
  throw Error(Phase::kFiles, WithErrno(fmt::format("data {}: {}", data.name, path), errno),
              is_there ? "give this account the right to read it, on that host"
                       : "copy it there, or mount what holds it");
}

std::string PathOf(const DataDescription& data, const std::filesystem::path& base) {
  if (data.key.empty()) return PathOf(data);
  const DataFolder folder(base, data.key);
  if (!folder.Use()) {
    throw Error(Phase::kFiles, fmt::format("data {} is not there any more", data.name),
                "start again: it is sent anew");
  }
  if (data.file.empty()) return folder.Content();
  return folder.Content() / PathInWork("work/" + data.file).value();
}

// Links in it are not followed; it may be one itself.
protocol::KeptFiles CountFiles(const std::string& path, TimePoint deadline) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return LookAtKept(path, deadline);
  protocol::KeptFiles one;
  one.files = 1;
  one.bytes = static_cast<uint64_t>(info.st_size);
  return one;
}

}  // namespace

void FillData(std::vector<TaskDescription>& tasks, const std::vector<DataDescription>& data,
              const std::filesystem::path& base) {
  for (const DataDescription& one : data) {
    FillPath(tasks, protocol::DataPath(one.name), PathOf(one, base));
  }
}

std::vector<std::filesystem::path> DataMarks(const std::vector<DataDescription>& data,
                                             const std::filesystem::path& base) {
  std::vector<std::filesystem::path> marks;
  for (const DataDescription& one : data) {
    if (!one.key.empty()) marks.push_back(DataFolder(base, one.key).Mark());
  }
  return marks;
}

void FillDataThatIsThere(std::vector<TaskDescription>& tasks,
                         const std::vector<DataDescription>& data,
                         std::vector<protocol::Trouble>& troubles) {
  for (const DataDescription& one : data) {
    try {
      FillPath(tasks, protocol::DataPath(one.name), PathOf(one));
    } catch (const Error& error) {
      troubles.push_back({error.cause(), error.remedy()});
    }
  }
}

std::vector<DataFact> CountData(const std::vector<DataDescription>& data, TimePoint deadline) {
  std::vector<DataFact> facts;
  for (const DataDescription& one : data) {
    try {
      facts.push_back({one.name, CountFiles(PathOf(one), deadline)});
    } catch (const Error&) {
      continue;  // FillDataThatIsThere has said why
    }
  }
  return facts;
}

}  // namespace tfdist::agent
