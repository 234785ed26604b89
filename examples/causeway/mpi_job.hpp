// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_MPI_JOB_HPP
#define CAUSEWAY_EXAMPLES_MPI_JOB_HPP

// This process as a rank of an MPI job. Without --net.sites each rank is a peer of one run, and MPI is its network. With it
// the ranks form sites: the first rank of a site is a peer of the run, over TCP, and the others compute with it.

#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <functional>
#include <memory>
#include <string>

#include "chosen_model.hpp"
#include "settings.hpp"

namespace app {

/// The job that this process is a rank of, if it is one.
class mpi_job {
 public:
  /// Enters the job of the launcher that started this process; none where there is no launcher of MPI, or where the
  /// settings say otherwise how peers meet. All ranks get the settings of rank 0: one that was given here and differs is an
  /// error.
  static causeway::result<mpi_job> enter(settings& s, const origins& from);

  mpi_job();
  mpi_job(mpi_job&&) noexcept;
  mpi_job& operator=(mpi_job&&) noexcept;
  ~mpi_job();

  [[nodiscard]] bool ranks_are_peers() const;  ///< over `transport`
  [[nodiscard]] bool computes_for_another() const;
  causeway::result<causeway::net::any_transport> transport();
  std::function<void()> interrupter() const;

  /// Computes what the first rank of this site asks for, until that has ended.
  causeway::result<int> serve(settings s);

  /// The job has ended well; without it, the launcher ends all ranks, as it should. One that was told to stop waits for the
  /// others a minute, in which they save: they were told, too.
  causeway::result<void> leave(bool told_to_stop);

  struct state;

 private:
  std::shared_ptr<state> state_;
};

/// The same model, computed by all ranks of this site together; `model` itself where this process leads none. `folder`: the
/// run's, which keeps how the site sums up.
causeway::result<chosen_model> share_with_site(chosen_model model, settings s, std::int64_t vocabulary,
                                               const std::string& folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_MPI_JOB_HPP
