#include "cli/plan/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tfdist::cli {
namespace {

Located<GpuRequest> RequestOf(const ClusterFile& file, const Role& role) {
  if (role.table && role.table->settings.gpus) return *role.table->settings.gpus;
  if (role.model && role.model->settings.gpus) return *role.model->settings.gpus;
  // A parameter server computes little, and a TensorFlow process takes the memory of every GPU it
  // sees.
  if (role.type == "ps") return {{GpuRequest::Kind::kCount, 0, {}}, role.where};
  if (file.task.gpus) return *file.task.gpus;
  return {GpuRequest{}, role.where.Below("gpus")};
}

bool WantsGpu(const GpuRequest& request) {
  switch (request.kind) {
    case GpuRequest::Kind::kAuto:
      return true;
    case GpuRequest::Kind::kCount:
      return request.count > 0;
    case GpuRequest::Kind::kList:
      return !request.list.empty();
  }
  return true;
}

// How to say what every host has, in a file and without one.
std::string GpusOfAll(std::string_view list) {
  return fmt::format("gpus = [{0}] in [cluster] (--set 'cluster.gpus=[{0}]')", list);
}

// One task that wants GPUs.
struct Wish {
  Located<GpuRequest> request;
  const HostEntry* host = nullptr;
  Gpus* gpus = nullptr;  // to be filled in
};

// Gives out the GPUs, one machine after the other.
class Giver {
 public:
  explicit Giver(Problems& problems) : problems_(problems) {}

  void GiveOnMachine(std::vector<Wish>& wishes) {
    used_.clear();
    const bool alone = wishes.size() == 1;
    if (!alone && AllAuto(wishes) && SameHostList(wishes)) return Divide(wishes);
    // Those that name their GPUs first: the others take what is left.
    std::stable_partition(wishes.begin(), wishes.end(), [](const Wish& wish) {
      return wish.request.value.kind == GpuRequest::Kind::kList;
    });
    for (const Wish& wish : wishes) {
      switch (wish.request.value.kind) {
        case GpuRequest::Kind::kAuto:
          GiveAll(wish, alone);
          break;
        case GpuRequest::Kind::kCount:
          GiveSome(wish, alone);
          break;
        case GpuRequest::Kind::kList:
          GiveThese(wish);
          break;
      }
    }
  }

 private:
  static bool AllAuto(const std::vector<Wish>& wishes) {
    return std::all_of(wishes.begin(), wishes.end(), [](const Wish& wish) {
      return wish.request.value.kind == GpuRequest::Kind::kAuto;
    });
  }

  // Loopback addresses are one machine, but entries of their own.
  static bool SameHostList(const std::vector<Wish>& wishes) {
    return std::all_of(wishes.begin(), wishes.end(), [&](const Wish& wish) {
      return wish.host->gpus == wishes.front().host->gpus;
    });
  }

  void Divide(const std::vector<Wish>& wishes) {
    if (wishes.front().host->gpus) return DivideList(wishes, *wishes.front().host->gpus);
    for (size_t i = 0; i < wishes.size(); ++i) {
      *wishes[i].gpus = {std::nullopt,
                         protocol::GpuShare{static_cast<int>(i), static_cast<int>(wishes.size())}};
    }
  }

  // As the agent does it on a host that lists none (agent/tasks/gpu_share.h).
  void DivideList(const std::vector<Wish>& wishes, const std::vector<std::string>& listed) {
    const size_t each = listed.size() / wishes.size();
    if (each == 0 && !listed.empty()) {
      return Report(wishes.front(),
                    fmt::format("{} tasks on {} are to share its GPUs, and it lists {}",
                                wishes.size(), wishes.front().host->address, listed.size()),
                    fmt::format("run fewer of them there, or write gpus = 0 for those that need "
                                "none (--set task.gpus=0); to share a GPU on purpose, list it "
                                "twice: {}",
                                GpusOfAll("0, 0, 1, 1")));
    }
    for (size_t i = 0; i < wishes.size(); ++i) {
      const auto first = listed.begin() + static_cast<std::ptrdiff_t>(i * each);
      wishes[i].gpus->listed = OnceEach({first, first + static_cast<std::ptrdiff_t>(each)});
    }
  }

  // A task does not get one GPU twice.
  static std::vector<std::string> OnceEach(const std::vector<std::string>& gpus) {
    std::vector<std::string> once;
    for (const std::string& gpu : gpus) {
      if (std::find(once.begin(), once.end(), gpu) == once.end()) once.push_back(gpu);
    }
    return once;
  }

  void GiveAll(const Wish& wish, bool alone) {
    if (alone) {
      if (wish.host->gpus) {
        wish.gpus->listed = Unused(*wish.host->gpus);
      } else {
        wish.gpus->listed = std::nullopt;
      }
      return;
    }
    Report(wish,
           fmt::format("several tasks on {} use GPUs and not all say \"auto\", so it does not tell "
                       "which",
                       wish.host->address),
           fmt::format("write gpus = N, and list the GPUs of the hosts: {}; gpus = 0 for none",
                       GpusOfAll("0, 1")));
  }

  void GiveSome(const Wish& wish, bool alone) {
    const auto wanted = static_cast<size_t>(wish.request.value.count);
    std::vector<std::string> gpus;
    for (size_t number = 0; number < wanted; ++number) gpus.push_back(std::to_string(number));
    if (wish.host->gpus) {
      gpus = Unused(*wish.host->gpus);
    } else if (!alone) {
      Report(
          wish,
          fmt::format("several tasks on {} use GPUs, and the host lists none", wish.host->address),
          fmt::format("list them: {}", GpusOfAll("0, 1")));
      return;
    }
    if (gpus.size() < wanted) {
      Report(wish,
             fmt::format("{} GPUs for each task, but {} has not enough of them: it lists {}",
                         wanted, wish.host->address, wish.host->gpus->size()),
             {});
      return;
    }
    gpus.resize(wanted);
    for (const std::string& gpu : gpus) ++used_[gpu];
    wish.gpus->listed = gpus;
  }

  void GiveThese(const Wish& wish) {
    for (const std::string& gpu : wish.request.value.list) {
      const long listed = Listed(wish, gpu);
      if (listed == 0) {
        Report(wish, fmt::format("{} does not list GPU {}", wish.host->address, gpu), {});
      } else if (used_[gpu] >= listed) {
        Report(wish, fmt::format("GPU {} of {} would go to two tasks", gpu, wish.host->address),
               fmt::format("gpus = N takes them from the host's list; to share one on purpose, "
                           "list it twice: {}",
                           GpusOfAll(fmt::format("{0}, {0}", gpu))));
      }
      ++used_[gpu];
    }
    wish.gpus->listed = wish.request.value.list;
  }

  // How many tasks may have it. A host that lists none has whatever is asked for, once.
  static long Listed(const Wish& wish, const std::string& gpu) {
    if (!wish.host->gpus) return 1;
    return std::count(wish.host->gpus->begin(), wish.host->gpus->end(), gpu);
  }

  // What is left of a host's list, each number once: a task does not get one GPU twice.
  std::vector<std::string> Unused(const std::vector<std::string>& listed) {
    std::vector<std::string> unused;
    for (const std::string& gpu : listed) {
      const auto copies = std::count(listed.begin(), listed.end(), gpu);
      const bool seen = std::find(unused.begin(), unused.end(), gpu) != unused.end();
      if (!seen && used_[gpu] < copies) unused.push_back(gpu);
    }
    return unused;
  }

  // What is wrong on one machine is mostly wrong on all of them: the first one is named.
  void Report(const Wish& wish, std::string message, std::string hint) {
    if (!reported_.insert(wish.request.where.key).second) return;
    problems_.Add(wish.request.where, std::move(message), std::move(hint));
  }

  Problems& problems_;
  std::map<std::string, long> used_;  // GPU of this machine -> tasks that have it
  std::set<std::string> reported_;    // keys of the file
};

}  // namespace

std::vector<std::vector<Gpus>> AssignGpus(const ClusterFile& file, const Placement& placement,
                                          const std::vector<int>& machines, Problems& problems) {
  std::vector<std::vector<Gpus>> gpus;
  std::map<int, std::vector<Wish>> wishes;
  for (const Role& role : placement.roles) {
    gpus.emplace_back(role.slots.size());
  }
  for (size_t i = 0; i < placement.roles.size(); ++i) {
    const Role& role = placement.roles[i];
    const Located<GpuRequest> request = RequestOf(file, role);
    if (!WantsGpu(request.value)) continue;
    for (size_t index = 0; index < role.slots.size(); ++index) {
      const auto slot = static_cast<size_t>(role.slots[index]);
      wishes[machines[slot]].push_back({request, &placement.hosts[slot], &gpus[i][index]});
    }
  }
  Giver giver(problems);
  for (auto& [machine, of_machine] : wishes) giver.GiveOnMachine(of_machine);
  return gpus;
}

}  // namespace tfdist::cli
