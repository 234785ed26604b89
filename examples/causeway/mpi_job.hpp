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
#include "last_words.hpp"
#include "settings.hpp"

namespace app {

struct session_input;

/// The job that this process is a rank of, if it is one.
class mpi_job {
 public:
  /// `command`: of the program. Only some are for all ranks of a job together.
  explicit mpi_job(const std::string& command);
  mpi_job(const mpi_job&) = delete;
  mpi_job& operator=(const mpi_job&) = delete;
  ~mpi_job();

  /// Enters the job of the launcher that started this process; none where there is no launcher of MPI, or where the
  /// settings say otherwise how peers meet. All ranks get the settings of rank 0: one that was given here and differs is an
  /// error. An error of one rank is one of all.
  causeway::result<void> enter(settings& s, const origins& from);

  [[nodiscard]] bool ranks_are_peers() const;  ///< over `transport`
  [[nodiscard]] bool computes_for_another() const;
  causeway::result<causeway::net::any_transport> transport();
  std::function<void()> interrupter() const;

  /// Computes what the first rank of this site asks for, until that has ended.
  causeway::result<int> serve(settings s);

  /// The job has ended well; without it, the launcher ends all ranks, as it should. One that was told to stop waits for the
  /// others a minute, in which they save: they were told, too.
  causeway::result<void> leave(bool told_to_stop);

  /// This process ends with an error. Ranks that do so at the same time speak with one voice, and all have the exit status
  /// that this returns. Waits for the others for seconds only.
  int end(const causeway::error& mine, last_words say);

  struct state;

 private:
  std::shared_ptr<state> state_;
  bool expected_;  ///< MPI can be entered: the command is one for that, and the settings say nothing else
};

/// All ranks of the job, each when it is ready to train: an error of one, or another text than rank 0's, is an error of
/// all. Then the same model, computed by all ranks of this site together; `model` itself where this process leads none.
/// The run's folder keeps how the site sums up.
causeway::result<chosen_model> begin_with_job(chosen_model model, const session_input& in);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_MPI_JOB_HPP
