// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_MPI_WORLD_HPP
#define CAUSEWAY_NET_MPI_WORLD_HPP

// The ranks of an MPI job (mpirun, srun): who they are, on which hosts, and groups of them. What they say to each other is
// in net/mpi_transport.hpp and collective/mpi_site.hpp. Link causeway::mpi.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {
struct mpi_communicator;  // net/mpi_library.hpp
}

struct mpi_options {
  /// The longest that a rank waits for others of its group where all of them must come. One that exchanges with other sites
  /// comes late to its own, so this must be longer than such an exchange.
  duration patience = std::chrono::minutes{10};
  any_clock clock{};  ///< what deadlines are measured on
};

/// Ranks that were started together, or some of them. Copies name the same ones. All calls come from the thread that
/// entered. A rank that dies, or ends without `leave`, makes the launcher end the job: whatever must live on is another
/// job.
class mpi_world {
 public:
  /// Starts MPI in this process, once, and gives all ranks of the job. Never aborts: MPI's errors become ours.
  /// errc::invalid_argument: the launcher belongs to another MPI than the one that this program is linked with, so that
  /// each process would be alone.
  CAUSEWAY_DECL [[nodiscard]] static result<mpi_world> enter(const mpi_options& options = {});

  CAUSEWAY_DECL [[nodiscard]] std::uint32_t rank() const;
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t size() const;
  /// "Open MPI 4.1.4", "MPICH 4.0.2".
  CAUSEWAY_DECL [[nodiscard]] static std::string library();

  /// The host of each rank, by rank. All ranks call it.
  CAUSEWAY_DECL [[nodiscard]] result<std::vector<std::string>> hosts() const;

  /// The ranks that give the same `part`, in the order of their ranks here. All ranks call it.
  CAUSEWAY_DECL [[nodiscard]] result<mpi_world> split(std::uint32_t part) const;

  /// A text of rank `from`, on all ranks. All ranks call it.
  CAUSEWAY_DECL [[nodiscard]] result<std::string> tell(std::uint32_t from, const std::string& text) const;

  /// Whether all ranks came through what they did each for itself. All ranks call it with what came of that, and all get
  /// the same: nothing, or the error of one of them: of the first whose error is not that it lost another. `where` begins
  /// with the rank where some ranks have no error. `from`: that rank.
  CAUSEWAY_DECL [[nodiscard]] result<void> agree(const result<void>& mine, std::uint32_t* from = nullptr) const;

  /// A function that ends all waits, from any thread, with errc::cancelled. MPI is not usable after that.
  CAUSEWAY_DECL [[nodiscard]] std::function<void()> interrupter() const;

  /// Ends MPI in this process when all went well; all ranks of the job call it, after they have destroyed their transports
  /// and sites. Without it, the launcher takes the end of the process for a failure and ends the others: which is right
  /// after an error. `at_most`: how long to wait for the others, if not `patience`.
  CAUSEWAY_DECL [[nodiscard]] result<void> leave(duration at_most = duration::max()) const;

  /// For those who call MPI themselves, through net/mpi_library.hpp.
  [[nodiscard]] const std::shared_ptr<detail::mpi_communicator>& line() const noexcept { return line_; }
  [[nodiscard]] duration patience() const noexcept { return patience_; }

 private:
  CAUSEWAY_DECL mpi_world(std::shared_ptr<detail::mpi_communicator> line, duration patience);

  /// All are here, or have not come in time: what blocks afterwards does not block for ever.
  CAUSEWAY_DECL [[nodiscard]] result<void> meet(duration at_most = duration::max()) const;

  std::shared_ptr<detail::mpi_communicator> line_;
  duration patience_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/mpi_world.ipp>
#endif

#endif  // CAUSEWAY_NET_MPI_WORLD_HPP
