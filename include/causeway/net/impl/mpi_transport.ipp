// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_MPI_TRANSPORT_IPP
#define CAUSEWAY_NET_IMPL_MPI_TRANSPORT_IPP

#include <causeway/net/mpi_transport.hpp>

#include <causeway/net/mpi_engine.hpp>
#include <causeway/net/mpi_library.hpp>

#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_DECL mpi_transport::mpi_transport(std::shared_ptr<detail::mpi_engine> engine) : engine_{std::move(engine)} {}

CAUSEWAY_DECL result<mpi_transport> mpi_transport::open(const mpi_world& world, const mpi_transport_options& options) {
  detail::mpi_communicator line = *world.line();
  if (!line.process->usable()) return fail(errc::peer_lost, "MPI", "is not usable any more; start the job anew");
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm own = MPI_COMM_NULL;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Comm_idup(line.handle, &own, &request), "opening a transport"));
  CAUSEWAY_TRY(detail::mpi_wait(line, request, world.patience(), "opening a transport"));
  line.handle = own;
  CAUSEWAY_TRY(detail::mpi_check(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "opening a transport"));
  auto engine = std::make_shared<detail::mpi_engine>(std::move(line), options);
  CAUSEWAY_TRY(engine->open());
  return mpi_transport{std::move(engine)};
}

CAUSEWAY_DECL peer_index mpi_transport::self() const noexcept { return engine_->self(); }
CAUSEWAY_DECL std::uint32_t mpi_transport::size() const noexcept { return engine_->size(); }

CAUSEWAY_DECL operation mpi_transport::send(peer_index to, const message_id& id, std::span<const std::byte> bytes) {
  return engine_->send(to, id, bytes);
}

CAUSEWAY_DECL operation mpi_transport::receive(peer_index from, const message_id& id, std::span<std::byte> buffer) {
  return engine_->receive(from, id, buffer);
}

CAUSEWAY_DECL bool mpi_transport::sums() const noexcept { return engine_->sums(); }
CAUSEWAY_DECL operation mpi_transport::sum(std::span<float> data) { return engine_->sum(data); }

CAUSEWAY_DECL result<std::size_t> mpi_transport::wait(operation op, time_point deadline) {
  return engine_->wait(op, deadline);
}

CAUSEWAY_DECL bool mpi_transport::done(operation op) const { return engine_->done(op); }

CAUSEWAY_DECL bool mpi_transport::wait_any(std::span<const operation> ops, time_point deadline) {
  return engine_->wait_any(ops, deadline);
}
CAUSEWAY_DECL traffic mpi_transport::stats() const { return engine_->stats(); }
CAUSEWAY_DECL std::string mpi_transport::describe_waits() const { return engine_->describe(); }

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_MPI_TRANSPORT_IPP
