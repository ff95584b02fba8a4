#include "cli/plan/local_path.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

// Without looking at the file system: ".." behind a link would otherwise not be what the shell says.
fs::path Resolve(const std::string& text, const fs::path& folder) {
  return (folder / WithHome(text)).lexically_normal();
}

std::optional<fs::path> Find(const Located<std::string>& text, const fs::path& folder,
                             fs::file_type wanted, std::string_view name, Problems& problems) {
  const fs::path path = Resolve(text.value, folder);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == wanted) return path;
  const std::string shown = Quoted(path.string());
  if (!fs::exists(status)) {
    problems.Add(text.where, fmt::format("there is no {} {}{}", name, shown,
                                         error && status.type() != fs::file_type::not_found
                                             ? ": " + error.message()
                                             : ""));
  } else {
    problems.Add(text.where, fmt::format("{} is no {}", shown, name));
  }
  return std::nullopt;
}

}  // namespace

std::string WithHome(const std::string& text) {
  const char* home = std::getenv("HOME");
  const bool in_home = home != nullptr && (text == "~" || text.starts_with("~/"));
  return in_home ? home + text.substr(1) : text;
}

std::optional<fs::path> FindFolder(const Located<std::string>& text, const fs::path& folder,
                                   Problems& problems) {
  return Find(text, folder, fs::file_type::directory, "folder", problems);
}

std::optional<fs::path> FindEither(const Located<std::string>& text, const fs::path& folder,
                                   Problems& problems) {
  std::error_code error;
  const bool is_folder = fs::is_directory(Resolve(text.value, folder), error);
  return Find(text, folder, is_folder ? fs::file_type::directory : fs::file_type::regular,
              "folder or file", problems);
}

std::optional<fs::path> FindFile(const Located<std::string>& text, const fs::path& folder,
                                 Problems& problems) {
  return Find(text, folder, fs::file_type::regular, "file", problems);
}

}  // namespace tfdist::cli
