// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_MPI_WORLD_IPP
#define CAUSEWAY_NET_IMPL_MPI_WORLD_IPP

#include <causeway/net/mpi_world.hpp>

#include <causeway/net/mpi_library.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

/// How many ranks a launcher's variable says that there are; 0 where it says nothing.
inline int ranks_by(const char* variable) {
  const char* const text = std::getenv(variable);
  int value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

/// A launcher of another MPI starts processes that find no others.
inline result<void> check_launcher(int size) {
  if (size != 1) return {};
  const struct {
    const char *variable, *launcher;
  } launchers[] = {{"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
                   {"PMI_SIZE", "MPICH's mpirun, or a srun that speaks PMI,"}};
  for (const auto& [variable, launcher] : launchers) {
    const int ranks = ranks_by(variable);
    if (ranks <= 1) continue;
    return fail(errc::invalid_argument, "MPI",
                std::string{launcher} + " started " + std::to_string(ranks) + " ranks, but this program is linked with " +
                    mpi_world::library() +
                    " and finds itself alone; start it with the mpirun of that, or build it with the other");
  }
  return {};
}

inline result<std::shared_ptr<mpi_process>> start_mpi() {
  static const auto process = std::make_shared<mpi_process>();
  if (process->left) return fail(errc::unsupported, "MPI", "was left before; a process can enter it once");
  int running = 0, level = 0;
  CAUSEWAY_TRY(mpi_check(MPI_Initialized(&running), "MPI"));
  if (running == 0) CAUSEWAY_TRY(mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "starting MPI"));
  return process;
}

inline result<void> identify(mpi_communicator& line) {
  CAUSEWAY_TRY(mpi_check(MPI_Comm_set_errhandler(line.handle, MPI_ERRORS_RETURN), "MPI"));
  CAUSEWAY_TRY(mpi_check(MPI_Comm_rank(line.handle, &line.rank), "MPI"));
  return mpi_check(MPI_Comm_size(line.handle, &line.size), "MPI");
}

}  // namespace detail

CAUSEWAY_DECL mpi_world::mpi_world(std::shared_ptr<detail::mpi_communicator> line, duration patience)
    : line_{std::move(line)}, patience_{patience} {}

CAUSEWAY_DECL result<mpi_world> mpi_world::enter(const mpi_options& options) {
  auto line = std::make_shared<detail::mpi_communicator>();
  CAUSEWAY_ASSIGN(line->process, detail::start_mpi());
  line->handle = MPI_COMM_WORLD;
  line->clock = options.clock;
  CAUSEWAY_TRY(detail::identify(*line));
  CAUSEWAY_TRY(detail::check_launcher(line->size));
  return mpi_world{std::move(line), options.patience};
}

CAUSEWAY_DECL std::uint32_t mpi_world::rank() const { return static_cast<std::uint32_t>(line_->rank); }
CAUSEWAY_DECL std::uint32_t mpi_world::size() const { return static_cast<std::uint32_t>(line_->size); }

CAUSEWAY_DECL std::string mpi_world::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "an unknown MPI";
  std::string_view all{text, static_cast<std::size_t>(length)};
  all = all.substr(0, all.find_first_of(",\n"));
  if (all.starts_with("MPICH")) {
    const auto number = all.find_first_of("0123456789");
    return "MPICH " + std::string{number == all.npos ? "" : all.substr(number)};
  }
  const auto version = all.find(" v");
  if (!all.starts_with("Open MPI") || version == all.npos) return std::string{all};
  return "Open MPI " + std::string{all.substr(version + 2)};
}

CAUSEWAY_DECL result<void> mpi_world::meet(duration at_most) const {
  if (line_->process->failure) return *line_->process->failure;
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Ibarrier(line_->handle, &request), "meeting the ranks of the job"));
  return detail::mpi_wait(*line_, request, std::min(patience_, at_most), "meeting the ranks of the job");
}

CAUSEWAY_DECL result<std::vector<std::string>> mpi_world::hosts() const {
  constexpr int room = MPI_MAX_PROCESSOR_NAME;
  char own[room] = "";
  int length = 0;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Get_processor_name(own, &length), "the name of this host"));
  std::vector<char> all(static_cast<std::size_t>(room) * size());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Iallgather(own, room, MPI_CHAR, all.data(), room, MPI_CHAR, line_->handle, &request),
                                 "the names of all hosts"));
  CAUSEWAY_TRY(detail::mpi_wait(*line_, request, patience_, "the names of all hosts"));
  std::vector<std::string> names;
  for (std::uint32_t r = 0; r < size(); ++r) names.emplace_back(all.data() + static_cast<std::size_t>(room) * r);
  return names;
}

CAUSEWAY_DECL result<mpi_world> mpi_world::split(std::uint32_t part) const {
  CAUSEWAY_TRY(meet());
  auto line = std::make_shared<detail::mpi_communicator>(*line_);
  CAUSEWAY_TRY(detail::mpi_check(MPI_Comm_split(line_->handle, static_cast<int>(part), line_->rank, &line->handle),
                                 "grouping the ranks of the job"));
  CAUSEWAY_TRY(detail::identify(*line));
  return mpi_world{std::move(line), patience_};
}

CAUSEWAY_DECL result<std::string> mpi_world::tell(std::uint32_t from, const std::string& text) const {
  const auto broadcast = [&](void* data, std::size_t bytes) -> result<void> {
    MPI_Request request = MPI_REQUEST_NULL;
    CAUSEWAY_TRY(detail::mpi_check(
        MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(from), line_->handle, &request),
        "a word to all ranks"));
    return detail::mpi_wait(*line_, request, patience_, "a word to all ranks");
  };
  std::uint64_t length = text.size();
  CAUSEWAY_TRY(broadcast(&length, sizeof length));
  if (length > detail::most_at_once) return fail(errc::too_large, "a word to all ranks", "is longer than 1 GiB");
  std::string told = rank() == from ? text : std::string(length, '\0');
  CAUSEWAY_TRY(broadcast(told.data(), length));
  return told;
}

CAUSEWAY_DECL result<void> mpi_world::agree(const result<void>& mine, std::uint32_t* from) const {
  if (line_->process->failure) return *line_->process->failure;
  constexpr int none = 0, lost = static_cast<int>(errc::peer_lost);  // numbers of errors begin at 1
  const int own = mine ? none : static_cast<int>(mine.error().code);
  std::vector<int> codes(size());
  MPI_Request request = MPI_REQUEST_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Iallgather(&own, 1, MPI_INT, codes.data(), 1, MPI_INT, line_->handle, &request),
                                 "asking all ranks whether they are well"));
  CAUSEWAY_TRY(detail::mpi_wait(*line_, request, patience_, "asking all ranks whether they are well"));
  auto first = std::find_if(codes.begin(), codes.end(), [](int code) { return code != none && code != lost; });
  if (first == codes.end()) first = std::find(codes.begin(), codes.end(), lost);
  if (first == codes.end()) return {};
  const auto teller = static_cast<std::uint32_t>(first - codes.begin());
  if (from != nullptr) *from = teller;
  CAUSEWAY_ASSIGN(std::string where, tell(teller, mine ? "" : mine.error().where));
  CAUSEWAY_ASSIGN(const std::string message, tell(teller, mine ? "" : mine.error().message));
  if (std::count(codes.begin(), codes.end(), none) > 0) where = "rank " + std::to_string(teller) + ": " + where;
  return fail(static_cast<errc>(*first), where, message);
}

CAUSEWAY_DECL std::function<void()> mpi_world::interrupter() const {
  return [process = line_->process] { process->interrupted = true; };
}

CAUSEWAY_DECL result<void> mpi_world::leave(duration at_most) const {
  detail::mpi_process& process = *line_->process;
  if (process.left) return {};
  CAUSEWAY_TRY(meet(at_most));  // to finalize blocks until all do
  process.left = true;
  return detail::mpi_check(MPI_Finalize(), "leaving MPI");
}

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_MPI_WORLD_IPP
