// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_MPI_LIBRARY_HPP
#define CAUSEWAY_NET_MPI_LIBRARY_HPP

// What the bodies that call MPI have in common: the process's one MPI, a communicator, and waiting with a deadline. MPI has
// no deadlines, cannot take a message back, and frees no buffer before its operation has ended. So the first operation that
// does not end in time is the last: from then on nobody here calls MPI again, which is what moves bytes in this process.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Most that one MPI call is given: its counts are ints, and Open MPI before 5.0 has no others.
inline constexpr std::size_t most_at_once = std::size_t{1} << 30U;

/// MPI as this process has it. `failure`: what ended its use.
struct mpi_process {
  std::optional<error> failure{};
  bool left = false;
  std::atomic<bool> interrupted{false};

  [[nodiscard]] bool usable() const { return !failure && !left; }
  const error& fail_for_good(error why) {
    if (!failure) failure.emplace(std::move(why));
    return *failure;
  }
};

/// Some ranks that talk to each other. Never freed: freeing waits for all of them, and MPI_Finalize does it.
struct mpi_communicator {
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::shared_ptr<mpi_process> process;
  any_clock clock{};
};

/// Our error for a code of MPI's other than MPI_SUCCESS.
inline error mpi_failure(int code, std::string where) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return fail(errc::peer_lost, std::move(where), "MPI: " + std::string(text, static_cast<std::size_t>(length)));
}

inline result<void> mpi_check(int code, const char* where) {
  if (code == MPI_SUCCESS) return {};
  return mpi_failure(code, where);
}

/// Between two looks that found nothing new: at first at once again, then after the others on this core had their turn,
/// at last after a sleep that grows to a millisecond, so that ranks that wait leave the cores to ranks that compute.
class mpi_pause {
 public:
  void reset() noexcept { looks_ = 0; }
  void operator()() {
    ++looks_;
    if (looks_ <= eager) return;
    if (looks_ <= patient) return std::this_thread::yield();
    const int more = std::min(looks_ - patient, 20);
    std::this_thread::sleep_for(std::chrono::microseconds{50 * more});
  }

 private:
  static constexpr int eager = 20, patient = 2000;
  int looks_ = 0;
};

inline error mpi_timeout(std::string where, duration patience) {
  return fail(errc::timeout, std::move(where),
              "no answer within " + std::to_string(static_cast<long>(seconds(patience))) +
                  " s; a rank of this site is lost or far behind, and the site must be started anew");
}

/// Looks until `done(pause)` is true: whether it was before the deadline. `done` resets the pause where something moved; an
/// error of it ends all.
template <class Done>
result<bool> mpi_poll(const any_clock& clock, const mpi_process& process, time_point deadline, Done&& done) {
  for (mpi_pause pause;; pause()) {
    CAUSEWAY_ASSIGN(const bool now, done(pause));
    if (now) return true;
    if (process.interrupted.load(std::memory_order_relaxed)) return fail(errc::cancelled, "MPI", "stopped on request");
    if (clock.now() >= deadline) return false;
  }
}

/// Waits for one request, whose memory MPI keeps if it does not end: then the use of MPI ends.
inline result<void> mpi_wait(mpi_communicator& line, MPI_Request& request, duration patience, const char* where) {
  const time_point deadline = line.clock.now() + patience;
  const auto ended = mpi_poll(line.clock, *line.process, deadline, [&](mpi_pause&) -> result<bool> {
    int flag = 0;
    CAUSEWAY_TRY(mpi_check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), where));
    return flag != 0;
  });
  if (!ended) return line.process->fail_for_good(ended.error());
  if (!*ended) return line.process->fail_for_good(mpi_timeout(where, patience));
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_MPI_LIBRARY_HPP
