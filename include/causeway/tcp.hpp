// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TCP_HPP
#define CAUSEWAY_TCP_HPP

// To meet other peers over TCP, and the exchanges themselves: transports, rendezvous, collectives.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#if !(__has_include(<asio.hpp>) && !defined(CAUSEWAY_NO_ASIO) && !defined(__CUDACC__))
#error "causeway/tcp.hpp needs standalone asio (Debian: libasio-dev), and a compiler other than nvcc"
#endif

#include <causeway/net/asio_ask.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/net/asio_greeting.hpp>
#include <causeway/net/asio_listener.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/asio_transport.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/descriptors.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/envelope.hpp>
#include <causeway/net/epochs.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/fabric_options.hpp>
#include <causeway/net/fields.hpp>
#include <causeway/net/float_packing.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/half_open.hpp>
#include <causeway/net/inbox.hpp>
#include <causeway/net/link_transport.hpp>
#include <causeway/net/memory_budget.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/net/mpi_options.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/rendezvous.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/shared_rings.hpp>
#include <causeway/net/side_thread.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/net/transport_options.hpp>

#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/barrier.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/butterfly.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/conversation.hpp>
#include <causeway/collective/encoding.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/exchange_message.hpp>
#include <causeway/collective/flight.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/gather_mean.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/link_times.hpp>
#include <causeway/collective/link_trees.hpp>
#include <causeway/collective/message_codec.hpp>
#include <causeway/collective/mpi_site_options.hpp>
#include <causeway/collective/norm_aggregators.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/own_sum_mean.hpp>
#include <causeway/collective/pairs.hpp>
#include <causeway/collective/quantised_ring.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/collective/relay_paths.hpp>
#include <causeway/collective/ring.hpp>
#include <causeway/collective/ring_order.hpp>
#include <causeway/collective/server_residual.hpp>
#include <causeway/collective/shared_sum.hpp>
#include <causeway/collective/shares.hpp>
#include <causeway/collective/site.hpp>
#include <causeway/collective/split_mean.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/collective/transport_site.hpp>
#include <causeway/collective/tree_mean.hpp>
#include <causeway/collective/tree_relays.hpp>
#include <causeway/collective/two_level_mean.hpp>

#include <causeway/axis/own_sum_mean.hpp>

#if defined(CAUSEWAY_HAS_MPI)
#include <causeway/net/mpi_transport.hpp>
#include <causeway/net/mpi_world.hpp>

#include <causeway/collective/mpi_site.hpp>
#endif

#endif  // CAUSEWAY_TCP_HPP
