package marketdata;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelOption;
import io.netty.channel.FixedRecvByteBufAllocator;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.EpollChannelOption;
import io.netty.channel.epoll.EpollDatagramChannel;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.DatagramChannel;
import io.netty.channel.socket.DatagramPacket;
import io.netty.channel.socket.SocketProtocolFamily;
import io.netty.channel.socket.nio.NioDatagramChannel;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A UDP echo on Netty: {@code serve TRANSPORT LOCAL PORT [GROUP]}, or {@code ask TRANSPORT LOCAL HOST PORT COUNT}. The
 * transport is {@code nio}, or {@code epoll}: Netty's own calls of recvmmsg, sendmmsg and epoll_wait.
 */
final class NettyNode {
    private static final int WINDOW = 16;
    private static final int LIMIT_SECONDS = 20;
    private static final int SIZE = 64;
    private static final int BATCH = 8;
    private static final int ROOM = 2048;

    private NettyNode() {
    }

    public static void main(String[] arguments) throws Exception {
        boolean epoll = arguments[1].equals("epoll");
        InetAddress local = InetAddress.getByName(arguments[2]);
        IoHandlerFactory handlers = epoll ? EpollIoHandler.newFactory() : NioIoHandler.newFactory();
        MultiThreadIoEventLoopGroup loops = new MultiThreadIoEventLoopGroup(1, handlers);
        Bootstrap bootstrap = new Bootstrap().group(loops).option(ChannelOption.SO_RCVBUF, 1 << 20);
        if (epoll) {
            bootstrap.channel(EpollDatagramChannel.class)
                    .option(EpollChannelOption.MAX_DATAGRAM_PAYLOAD_SIZE, ROOM)
                    .option(ChannelOption.RECVBUF_ALLOCATOR, new FixedRecvByteBufAllocator(ROOM * BATCH));
        } else {
            bootstrap.channelFactory(() -> new NioDatagramChannel(SocketProtocolFamily.INET));
        }
        if (arguments[0].equals("serve")) {
            serve(bootstrap, local, arguments);
        } else {
            ask(bootstrap, local, arguments);
        }
        Linger.await(Options.parse(List.of("--linger", "20"), Set.of("linger")));
        loops.shutdownGracefully(0, 0, TimeUnit.SECONDS).sync();
    }

    private static void serve(Bootstrap bootstrap, InetAddress local, String[] arguments) throws Exception {
        InetAddress bound = arguments.length > 4 ? InetAddress.getByName(arguments[4]) : local;
        DatagramChannel channel = (DatagramChannel) bootstrap.handler(new Echo())
                .bind(new InetSocketAddress(bound, Integer.parseInt(arguments[3]))).sync().channel();
        if (arguments.length > 4) {
            NetworkInterface card = NetworkInterface.getByInetAddress(local);
            channel.joinGroup(new InetSocketAddress(bound, 0), card).sync();
        }
        System.out.println("READY");
    }

    private static void ask(Bootstrap bootstrap, InetAddress local, String[] arguments) throws Exception {
        InetSocketAddress server = new InetSocketAddress(InetAddress.getByName(arguments[3]),
                Integer.parseInt(arguments[4]));
        Asker asker = new Asker(server, Integer.parseInt(arguments[5]));
        bootstrap.handler(asker).bind(new InetSocketAddress(local, 0)).sync();
        if (!asker.done.await(LIMIT_SECONDS, TimeUnit.SECONDS)) {
            System.err.println("answers until now: " + asker.answered);
        }
        System.out.println("answered " + asker.answered + " wrong " + asker.wrong);
    }

    /** Sends back what comes. */
    private static final class Echo extends SimpleChannelInboundHandler<DatagramPacket> {
        @Override
        protected void channelRead0(ChannelHandlerContext context, DatagramPacket packet) {
            context.write(new DatagramPacket(packet.content().retain(), packet.sender()));
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
        }
    }

    /** Keeps a window of questions on the way. */
    private static final class Asker extends SimpleChannelInboundHandler<DatagramPacket> {
        private final CountDownLatch done = new CountDownLatch(1);
        private final InetSocketAddress server;
        private final int count;
        private volatile int answered;
        private volatile int wrong;
        private int asked;

        Asker(InetSocketAddress server, int count) {
            this.server = server;
            this.count = count;
        }

        @Override
        public void channelActive(ChannelHandlerContext context) {
            for (int i = 0; i < WINDOW; i++) {
                ask(context);
            }
            context.flush();
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, DatagramPacket packet) {
            ByteBuf content = packet.content();
            if (content.readableBytes() != SIZE || content.getInt(0) != answered) {
                wrong++;
            }
            answered++;
            ask(context);
            if (answered == count) {
                done.countDown();
            }
        }

        @Override
        public void channelReadComplete(ChannelHandlerContext context) {
            context.flush();
        }

        private void ask(ChannelHandlerContext context) {
            if (asked < count) {
                ByteBuf content = context.alloc().buffer(SIZE).writeInt(asked).writeZero(SIZE - Integer.BYTES);
                asked++;
                context.write(new DatagramPacket(content, server));
            }
        }
    }
}
