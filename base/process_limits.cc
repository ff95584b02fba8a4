#include "base/process_limits.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <future>
#include <initializer_list>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/size_text.h"
#include "base/text.h"

namespace tfdist {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr rlim_t kLeastStackBytes = 256 << 10;
constexpr long kLittleMemoryBytes = 512 << 20;  // Python with a framework takes more
// Other slots of the job on this machine start at the same time, and look as this one does.
constexpr std::chrono::seconds kLookAgainFor{1};
constexpr std::chrono::milliseconds kPause{20};

std::string TextOf(const std::filesystem::path& path) {
  try {
    return ReadFileIfExists(path, kMostBytes).value_or("");
  } catch (const Error&) {
    return "";  // it is not for us to read
  }
}

std::optional<rlim_t> LimitOf(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// "12:pids:/a/b" or, of cgroups version 2, "0::/a/b": where that lies, by custom.
std::filesystem::path CgroupIn(std::string_view line, std::string_view controller) {
  (void)TakeUpTo(':', line);
  const std::string_view controllers = TakeUpTo(':', line);
  if (!controllers.empty() && controllers != controller) return {};
  std::filesystem::path folder = "/sys/fs/cgroup";
  if (!controllers.empty()) folder /= controller;
  return folder += std::string(line);
}

std::optional<long> NumberIn(const std::filesystem::path& file) {
  const std::string text = TextOf(file);
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;  // "max"
}

// The lowest of a cgroup and those above it; `files`: its names in both versions.
std::optional<long> CgroupLimit(std::string_view controller,
                                std::initializer_list<const char*> files) {
  std::optional<long> lowest;
  const std::string cgroups = TextOf("/proc/self/cgroup");
  for (std::string_view rest = cgroups; !rest.empty();) {
    for (auto folder = CgroupIn(TakeUpTo('\n', rest), controller); folder.has_relative_path();
         folder = folder.parent_path()) {
      for (const char* const file : files) {
        const auto limit = NumberIn(folder / file);
        if (limit && (!lowest || *limit < *lowest)) lowest = limit;
      }
    }
  }
  return lowest;
}

class Threads {
 public:
  explicit Threads(size_t stack_bytes) {
    pthread_attr_init(&attributes_);
    if (stack_bytes != 0) pthread_attr_setstacksize(&attributes_, stack_bytes);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    go_on_.set_value();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes_);
  }

  bool StartOne() {
    pthread_t thread{};
    if (pthread_create(&thread, &attributes_, Wait, &may_go_on_) != 0) return false;
    threads_.push_back(thread);
    return true;
  }
  // pthread_create(3) gives EAGAIN for what lacks memory, too. RLIMIT_DATA counts only what may be written to: setrlimit(2).
  [[nodiscard]] bool HasRoomForStack() const {
    size_t bytes = 0;
    pthread_attr_getstacksize(&attributes_, &bytes);
    void* const stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    return stack != MAP_FAILED && munmap(stack, bytes) == 0;
  }

 private:
  static void* Wait(void* until) {
    static_cast<std::shared_future<void>*>(until)->wait();
    return nullptr;
  }

  pthread_attr_t attributes_{};
  std::promise<void> go_on_;
  std::shared_future<void> may_go_on_ = go_on_.get_future().share();
  std::vector<pthread_t> threads_;
};

}  // namespace

std::string ProcessLimits() {
  std::vector<std::string> limits;
  if (const auto limit = LimitOf(RLIMIT_NPROC)) {
    limits.push_back(fmt::format("ulimit -u is {}", *limit));
  }
  if (const auto limit = CgroupLimit("pids", {"pids.max"})) {
    limits.push_back(fmt::format("pids.max of its cgroup is {}", *limit));
  }
  if (const auto limit = LimitOf(RLIMIT_AS)) {
    limits.push_back(fmt::format("ulimit -v is {} KiB", *limit / 1024));
  }
  if (const auto limit = LimitOf(RLIMIT_DATA)) {
    limits.push_back(fmt::format("ulimit -d is {} KiB", *limit / 1024));
  }
  return fmt::format("{}", fmt::join(limits, ", "));
}

std::vector<std::pair<std::string, std::string>> LowLimitsOfTasks() {
  std::vector<std::pair<std::string, std::string>> limits;
  if (const auto seconds = LimitOf(RLIMIT_CPU)) {
    limits.emplace_back(
        fmt::format("a process may use {} s of CPU there (ulimit -t): the kernel ends a task that "
                    "has used them",
                    *seconds),
        "have the limit raised (ulimit -t, cpu in limits.conf, LimitCPU of systemd)");
  }
  if (const auto bytes = FileSizeLimit()) {
    limits.emplace_back(
        fmt::format("a process may write files of at most {} there (ulimit -f): the kernel ends a "
                    "task that writes a larger one, as a checkpoint",
                    SizeText(*bytes)),
        std::string(kFileSizeLimitRemedy));
  }
  const auto memory = CgroupLimit("memory", {"memory.max", "memory.limit_in_bytes"});
  if (memory && *memory < kLittleMemoryBytes) {
    limits.emplace_back(
        fmt::format("all of this login may have {} of memory (memory.max of its cgroup), tasks and "
                    "tfdist together: the kernel ends one of them where they need more",
                    SizeText(static_cast<uint64_t>(*memory))),
        std::string(kMemoryLimitRemedy));
  }
  return limits;
}

std::string_view LimitRemedy(std::string_view words) {
  const auto said = [&](auto... texts) {
    return ((words.find(texts) != std::string_view::npos) || ...);
  };
  if (said("No space left on device", "quota exceeded")) return kRoomRemedy;
  if (said("Read-only file system")) return kWritableRemedy;
  if (said("Too many open files")) return kDescriptorLimitRemedy;
  if (said("File too large", "File size limit exceeded")) return kFileSizeLimitRemedy;
  if (said("Cannot allocate memory", "ut of memory", "failed to map segment")) {
    return kMemoryLimitRemedy;
  }
  // Of dash and bash, or of errno.
  if (said("annot fork", "fork: ", "Resource temporarily unavailable")) return kProcessLimitRemedy;
  return {};
}

std::string WithProcessLimits(const std::string& why) {
  const std::string limits = ProcessLimits();
  return limits.empty() ? why : fmt::format("{} ({})", why, limits);
}

namespace {

void StartAtOnce(int count, size_t stack_bytes, Phase phase) {
  Threads threads(stack_bytes);
  for (int started = 0; started < count; ++started) {
    if (threads.StartOne()) continue;
    const bool lacks_memory = !threads.HasRoomForStack();
    throw Error(phase,
                WithProcessLimits(fmt::format(
                    "this account may start {} more processes and threads there, and needs {}{}",
                    started, count, lacks_memory ? ": it has no memory for more" : "")),
                std::string(lacks_memory ? kMemoryLimitRemedy : kProcessLimitRemedy));
  }
}

}  // namespace

void CheckRoomForThreads(int count, size_t stack_bytes, Phase phase) {
  const TimePoint give_up = SystemClock().Now() + kLookAgainFor;
  while (true) {
    try {
      return StartAtOnce(count, stack_bytes, phase);
    } catch (const Error&) {
      if (SystemClock().Now() >= give_up) throw;
    }
    std::this_thread::sleep_for(kPause);
  }
}

void CheckRoomForDescriptors(size_t least, Phase phase) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= least) return;
  throw Error(phase,
              fmt::format("a process of this account may have {} files open there, and needs {}",
                          limit.rlim_max, least),
              std::string(kDescriptorLimitRemedy));
}

std::optional<uint64_t> FileSizeLimit() { return LimitOf(RLIMIT_FSIZE); }

void CheckRoomForFiles(uint64_t least_bytes, Phase phase) {
  const auto limit = FileSizeLimit();
  if (!limit || *limit >= least_bytes) return;
  throw Error(
      phase,
      fmt::format("a process of this account may write files of at most {} there, and needs {}",
                  SizeText(*limit), SizeText(least_bytes)),
      std::string(kFileSizeLimitRemedy));
}

void CheckRoomForStack(Phase phase) {
  const auto limit = LimitOf(RLIMIT_STACK);
  if (!limit || *limit >= kLeastStackBytes) return;
  throw Error(
      phase,
      fmt::format("a process of this account may have a stack of {} KiB there, and needs {}",
                  *limit >> 10, kLeastStackBytes >> 10),
      "have the limit raised (ulimit -s, stack in limits.conf, LimitSTACK of systemd)");
}

}  // namespace tfdist
