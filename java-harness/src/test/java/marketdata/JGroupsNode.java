package marketdata;

import java.net.InetAddress;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.protocols.UDP;
import org.jgroups.protocols.pbcast.NAKACK2;

/**
 * A member of a JGroups cluster with its own stack of protocols over UDP: {@code NAME ADDRESS COUNT}. Sends COUNT
 * messages to the group and as many to the other member, and counts what comes.
 */
final class JGroupsNode implements Receiver {
    private static final int LIMIT_SECONDS = 20;

    private final Map<String, AtomicInteger> next = new ConcurrentHashMap<>();
    private final AtomicInteger received = new AtomicInteger();
    private final AtomicInteger wrong = new AtomicInteger();

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        JGroupsNode node = new JGroupsNode();
        try (JChannel channel = new JChannel("udp.xml")) {
            UDP transport = channel.getProtocolStack().findProtocol(UDP.class);
            transport.setBindAddress(InetAddress.getByName(arguments[1]));
            channel.name(arguments[0]).setReceiver(node).connect("market");
            // A datagram a message.
            transport.bundler("no-bundler");
            System.out.println("READY");
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
            while (channel.getView().size() < 2 && System.nanoTime() < end) {
                Thread.sleep(10);
            }
            Address self = channel.getAddress();
            Address other = channel.getView().getMembers().stream().filter(a -> !a.equals(self)).findFirst().orElseThrow();
            for (int i = 0; i < count; i++) {
                channel.send(new BytesMessage(null, ("all " + i).getBytes()));
                channel.send(new BytesMessage(other, ("one " + i).getBytes()));
            }
            // Of the group's messages also its own.
            while (node.received.get() < 3 * count && System.nanoTime() < end) {
                Thread.sleep(10);
            }
            NAKACK2 reliable = channel.getProtocolStack().findProtocol(NAKACK2.class);
            System.out.println("received " + node.received + " wrong " + node.wrong);
            System.err.println("asked again for " + reliable.getXmitRequestsSent());
            Linger.await(Options.parse(List.of("--linger", "20"), Set.of("linger")));
        }
    }

    @Override
    public void receive(Message message) {
        String[] words = new String(message.getArray(), message.getOffset(), message.getLength()).split(" ");
        AtomicInteger expected = next.computeIfAbsent(message.getSrc() + words[0], key -> new AtomicInteger());
        if (expected.getAndIncrement() != Integer.parseInt(words[1])) {
            wrong.incrementAndGet();
        }
        received.incrementAndGet();
    }
}
